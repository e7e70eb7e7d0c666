"""The settings of a training run, with their bounds: the sections of a configuration
file (.cfg), and how it is read."""

import configparser
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from confection import Config
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from ..bilm import MAX_NUMBER, BiLMConfig
from ..bilm.objectives import FullSoftmax, MakeObjective
from ..errors import ElmoError, Errors, one_line
from ..files import MAX_JSON, check_plain, decode, named_path
from ..models import locate
from ..registry import registry
from .optimizers import OptimizerRecipe
from .schedules import Schedule

# Called with (nlp, stdout, stderr). Returns a function that is called at each step, and
# one that is called at the end.
SpacyLogger = Callable[..., tuple[Callable[[Any], None], Callable[[], None]]]


Count = Annotated[int, Field(ge=1, lt=1 << 63)]
Amount = Annotated[int, Field(ge=0, lt=1 << 63)]


def _as_paths(given: Any) -> Any:
    """Return a single path as a list: it needs no brackets, which a shell wants quoted.
    Raises ValueError if a path is empty: all files of the working folder would be
    read."""
    paths = [given] if isinstance(given, str) else given
    if isinstance(paths, list) and "" in paths:
        raise ValueError("a path is empty")
    return paths


Paths = Annotated[list[str], BeforeValidator(_as_paths)]
# A text is prepared in a folder of this name, below the output.
TextName = Annotated[str, Field(pattern=r"^\w[\w .-]*$")]


class Section(BaseModel):
    """A section of a configuration: all its settings are known, none is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # The folder that relative paths start from, even if the process changes its own.
    # The paths stay as they are written, for cards and checkpoints.
    _folder: Path = PrivateAttr(default_factory=Path.cwd)

    def path(self, name: str) -> Path:
        """Return the absolute path of a file or folder that the section names."""
        return self._folder / named_path(name)


class TextConfig(Section):
    """Section [text]: what is read, and how it is tokenized.

    Text is files with a paragraph or sentence on each line, .jsonl, CoNLL-U or `.spacy`
    files (.gz, .xz, .bz2 and .zst, too), folders of such files, or one folder that
    'spacy elmo prepare' made.
    """

    train: Paths
    dev: Paths  # held-out text for evaluation
    # More held-out text by name, measured before and after the training.
    also: dict[TextName, Paths] | None = None
    lang: str = "en"  # of the tokenizer
    tokenizer: str = "spacy"  # or "whitespace"
    sentences: bool = True  # whether lines are split at sentence ends
    processes: Count = 1  # that tokenize
    max_tokens: Count | None = None  # of the training text, all if null
    dev_max_tokens: Count | None = None  # of held-out text
    note: str = ""  # what the text is, for the model card
    licence: str = ""  # of the text, for the model card


class VocabConfig(Section):
    """Section [vocab]: the words that are predicted."""

    # With <S>, </S> and <UNK>; 50,000, or those of prepared text, if null.
    size: Count | None = None
    min_count: Amount = 1  # least number of occurrences of a word


class TrainingConfig(Section):
    """Section [training]: where a run starts from, and how it proceeds."""

    # Model folder to start from, or name of a shipped model. If it has a softmax, that
    # is kept, with its vocabulary, unless new_softmax is set.
    init: str | None = None
    new_softmax: bool = False
    softmax_first: Amount = 0  # first steps, which train the softmax alone
    batch_size: Count = 64  # streams, of all processes together
    accumulate: Count = 1  # parts that a batch is computed in, to save memory
    unroll_steps: Count = 20  # tokens after which backpropagation is cut
    epochs: Count = 1  # passes over the text
    max_steps: Count | None = None  # the step to stop at
    clip_norm: float = Field(5.0, gt=0, le=MAX_NUMBER)  # largest norm of the gradient
    dropout: float = Field(0.1, ge=0, lt=1)  # on the input of each LSTM and the softmax
    # Of matrix multiplications; "tf32" and, for what stays float32, "bfloat16" may
    # round to TF32 on a GPU.
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    eval_every: Count = 1000  # steps between evaluations
    save_every: Count = 500  # steps between checkpoints
    log_every: Count = 50  # steps between lines of the log
    seed: int = Field(0, ge=0, lt=1 << 63)  # of all random numbers
    threads: int = Field(0, ge=0, le=1024)  # of a CPU; 0 for torch's choice
    # "auto" takes a GPU if there is one.
    device: str = Field("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    save_dtype: Literal["float32", "float16"] = "float32"  # of weights in model folders
    tensorboard: bool = False  # whether events are written for TensorBoard

    @property
    def init_path(self) -> Path | None:
        """The absolute path of `init`."""
        return None if self.init is None else locate(self.init, self._folder)

    @model_validator(mode="after")
    def _parts_are_equal(self) -> "TrainingConfig":
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be a multiple of accumulate "
                f"({self.accumulate})"
            )
        return self


# Blocks of [training]: the registry of each, and the default name.
BLOCKS = {
    "objective": ("objectives", FullSoftmax.name),
    "optimizer": ("optimizers", "spacy-elmo.Adam.v1"),
    "schedule": ("schedules", "spacy-elmo.WarmupCosine.v1"),
    "logger": ("loggers", None),
}


class PretrainConfig(Section):
    """All settings of a run. `model` is None if sizes come from training.init; `blocks`
    are [training.objective], .optimizer, .schedule and .logger as they are written."""

    text: TextConfig
    vocab: VocabConfig
    model: BiLMConfig | None
    training: TrainingConfig
    blocks: dict[str, dict[str, Any]]

    def objective(self) -> MakeObjective:
        """Build the function that makes the objective."""
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
        with suppress(ImportError):  # spaCy's own loggers are registered there
            import_module("spacy.registrations").populate_registry()
        return self._build("logger")

    def _build(self, block: str) -> Any:
        name, default = BLOCKS[block]
        settings = self.blocks.get(block, {f"@{name}": default})
        return registry.resolve({block: settings})[block]

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, as JSON can hold them."""
        return self.model_dump(mode="json")


SECTIONS = ("text", "vocab", "model", "training")


def read_config(path: Path, overrides: dict[str, Any] | None = None) -> PretrainConfig:
    """Read a configuration file.

    Args:
        path: A `.cfg` file.
        overrides: Values that replace those of the file, by "section.name".

    Raises:
        ValueError: [EL037] The file can't be read, or a setting is unknown, missing,
            of the wrong type or out of bounds; [EL020] the sizes don't fit together.
    """
    try:
        file = named_path(path)
        check_plain(file, MAX_JSON)
        text = decode(file.read_bytes())
        return _parse(dict(Config().from_str(text, overrides=overrides or {})))
    except ElmoError:
        raise
    except KeyError as error:
        problem = f"it refers to {error}, which it does not have"
    except ValidationError as error:
        problem = one_line(error)
    except (
        OSError,
        ValueError,
        TypeError,
        ImportError,
        ArithmeticError,
        configparser.Error,
    ) as error:
        problem = _of_confection(str(error))
    raise Errors.EL037(path=path, problem=problem)


def parse_overrides(args: Sequence[str]) -> dict[str, Any]:
    """Return the values of arguments `--section.name VALUE` or `--section.name=VALUE`:
    JSON, else a string. Raises ValueError [EL037] on other arguments."""
    overrides: dict[str, Any] = {}
    rest = iter(args)
    for argument in rest:
        name, equals, text = argument.partition("=")
        value: Any = text if equals else next(rest, None)
        if not name.startswith("--") or "." not in name or value is None:
            problem = f"{name!r} is not an override such as --training.epochs 2"
            raise Errors.EL037(path="command line", problem=problem)
        with suppress(ValueError):  # no JSON: the string itself
            value = json.loads(value)
        overrides[name.removeprefix("--")] = value
    return overrides


def _parse(sections: dict[str, Any]) -> PretrainConfig:
    unknown = sorted(set(sections) - {*SECTIONS, "paths"})
    if unknown:
        shown = ", ".join(f"[{name}]" for name in SECTIONS)
        raise ValueError(f"unknown section [{unknown[0]}]; there are {shown}")
    text, vocab, model, training = (dict(sections.get(name, {})) for name in SECTIONS)
    written = {name: training.pop(name, None) for name in BLOCKS}
    blocks = {name: dict(block) for name, block in written.items() if block}
    for name, block in blocks.items():
        if f"@{BLOCKS[name][0]}" not in block:
            problem = f"[training.{name}] must name one of the @{BLOCKS[name][0]}"
            raise ValueError(problem)
    sizes = None
    if training.get("init") is None:
        sizes = BiLMConfig.from_dict(model)
        if sizes.characters != "bytes":
            problem = "a biLM is trained on bytes: remove characters from [model]"
            raise ValueError(problem)
    elif model:
        raise ValueError("sizes come from training.init; remove the section [model]")
    given = {"text": text, "vocab": vocab, "model": sizes, "training": training}
    config = PretrainConfig.model_validate({**given, "blocks": blocks})
    # Settings of the blocks are checked by building them.
    config.objective(), config.optimizer(), config.schedule(), config.logger()
    return config


def _of_confection(message: str) -> str:
    """Return confection's message without the dump of the section below it."""
    lines = [" ".join(line.split()) for line in message.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("{", "Config "))]
    if "can be overridden" in message:  # it does not say why not
        kept.append("add the section to the file, whose settings can then be replaced")
    return "; ".join(kept) or message
