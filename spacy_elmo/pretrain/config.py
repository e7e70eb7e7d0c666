"""The settings of a training run, with their bounds: the sections of a configuration.

`read_config` of config_file.py reads them from a file.
"""

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..bilm.config import BiLMConfig
from ..bilm.objectives import FullSoftmax, MakeObjective
from ..registry import registry
from .loggers import SpacyLogger
from .optimizers import OptimizerRecipe, adam  # noqa: F401  (registers the optimizers)
from .schedules import Schedule, warmup_cosine  # noqa: F401  (registers the schedules)


class Section(BaseModel):
    """A section of a configuration: all its settings are known, none is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TextConfig(Section):
    """Section [text]: what is read, and how it is tokenized.

    Text is files of one paragraph or sentence per line (.gz, .xz, .bz2, .zst and .jsonl
    too), or one folder made by 'spacy elmo prepare'.
    """

    train: list[str] = Field(description="Training text.")
    dev: list[str] = Field(description="Held-out text for evaluation.")
    also: dict[str, list[str]] | None = Field(
        None, description="Further held-out text by name, evaluated before and after."
    )
    lang: str = Field("en", description="Language of the tokenizer.")
    tokenizer: str = Field("spacy", description="'spacy' or 'whitespace'.")
    sentences: bool = Field(True, description="Split lines into sentences.")
    processes: int = Field(1, description="Number of processes that tokenize.")
    max_tokens: int | None = Field(None, description="Training tokens to stop after.")
    dev_max_tokens: int | None = Field(None, description="The same for held-out text.")
    note: str = Field("", description="What the text is, for the model card.")
    licence: str = Field("", description="Its licence, for the model card.")


class VocabConfig(Section):
    """Section [vocab]: the words that are predicted."""

    size: int | None = Field(
        None,
        description="Most words, <S>, </S> and <UNK> included; 50,000, or those of "
        "prepared text, if null.",
    )
    min_count: int = Field(1, description="Least number of occurrences of a word.")


class TrainingConfig(Section):
    """Section [training]: where a run starts from, and how it proceeds."""

    init: str | None = Field(
        None,
        description="Model folder to start from, or name of a shipped model. If it has "
        "a softmax, that is kept, with its vocabulary.",
    )
    new_softmax: bool = Field(False, description="Train a new softmax in any case.")
    softmax_first: int = Field(
        0, ge=0, description="First steps, which train the softmax alone."
    )
    batch_size: int = Field(64, ge=1, description="Streams, of all processes together.")
    accumulate: int = Field(
        1, ge=1, description="Parts that a batch is computed in, to save memory."
    )
    unroll_steps: int = Field(
        20, ge=1, description="Tokens after which backpropagation is cut."
    )
    epochs: int = Field(1, ge=1, description="Passes over the text.")
    max_steps: int | None = Field(None, ge=1, description="Stop at this step.")
    clip_norm: float = Field(5.0, gt=0, description="Largest norm of the gradient.")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Rate on the input of each LSTM and the softmax."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Precision of matrix multiplications."
    )
    eval_every: int = Field(1000, ge=1, description="Steps between evaluations.")
    save_every: int = Field(500, ge=1, description="Steps between checkpoints.")
    log_every: int = Field(50, ge=1, description="Steps between lines of the log.")
    seed: int = Field(0, ge=0, description="Seed of all random numbers.")
    threads: int = Field(0, ge=0, description="CPU threads; 0 for torch's choice.")
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="'cpu', 'cuda', 'cuda:N', or 'auto' for a GPU if there is one.",
    )
    save_dtype: Literal["float32", "float16"] = Field(
        "float32", description="Precision of the weights in model folders."
    )
    tensorboard: bool = Field(False, description="Write events for TensorBoard.")

    @model_validator(mode="after")
    def _parts_are_equal(self) -> "TrainingConfig":
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be a multiple of accumulate "
                f"({self.accumulate})"
            )
        return self


# Blocks of [training]: the registry of each, and what is taken where none is named.
BLOCKS = {
    "objective": ("objectives", FullSoftmax.name),
    "optimizer": ("optimizers", "spacy-elmo.Adam.v1"),
    "schedule": ("schedules", "spacy-elmo.WarmupCosine.v1"),
    "logger": ("loggers", None),
}


@dataclass(frozen=True)
class PretrainConfig:
    """All settings of a run. `model` is None if sizes come from training.init; `blocks`
    are [training.objective], .optimizer, .schedule and .logger as they are written."""

    text: TextConfig
    vocab: VocabConfig
    model: BiLMConfig | None
    training: TrainingConfig
    blocks: dict[str, dict[str, Any]]

    def objective(self) -> MakeObjective:
        """Build what makes the objective."""
        return self._build("objective")

    def optimizer(self) -> OptimizerRecipe:
        """Build the recipe of the optimizers."""
        return self._build("optimizer")

    def schedule(self) -> Schedule:
        """Build the schedule of the learning rate."""
        return self._build("schedule")

    def logger(self) -> SpacyLogger | None:
        """Build the logger, if one is named."""
        if "logger" not in self.blocks:
            return None
        with suppress(ImportError):  # spaCy's own loggers register themselves there
            import_module("spacy.training.loggers")
        return self._build("logger")

    def _build(self, block: str) -> Any:
        name, default = BLOCKS[block]
        settings = self.blocks.get(block, {f"@{name}": default})
        return registry.resolve({block: settings})[block]

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, as JSON can hold them."""
        return {
            "text": self.text.model_dump(),
            "vocab": self.vocab.model_dump(),
            "model": self.model.to_dict() if self.model else None,
            "training": self.training.model_dump(),
            "blocks": self.blocks,
        }
