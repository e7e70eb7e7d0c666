"""What a training run is made of: the sections of a pretraining configuration."""

import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from confection import Config, ConfigValidationError

from ..bilm.config import BiLMConfig
from ..bilm.weights import DTYPES
from ..errors import Errors


@dataclass(frozen=True)
class TextConfig:
    """train, dev: text files, one paragraph or sentence a line (.gz, .xz, .bz2 too).
    lang: whose spaCy tokenizer to use. sentences: split lines at sentence ends.
    max_tokens, dev_max_tokens: read no more than about so many. note: what the text is
    and under which licence, for the model card."""

    train: list[str]
    dev: list[str]
    lang: str = "en"
    sentences: bool = True
    max_tokens: int | None = None
    dev_max_tokens: int | None = None
    note: str = ""


@dataclass(frozen=True)
class VocabConfig:
    """size: words of the softmax at most, its three marks included. min_count: words
    seen less often are left out."""

    size: int = 50_000
    min_count: int = 1


@dataclass(frozen=True)
class TrainingConfig:
    """init: model folder to go on from. If it has a softmax it is kept with its
    vocabulary, and vocab and cutoffs are not used. cutoffs: clusters of an adaptive
    softmax; empty for a full one. batch_size: streams. unroll_steps: tokens a stream is
    read before the gradient is cut. learn_rate rises over warmup_steps, then falls
    along a cosine to final_learn_rate. clip_norm: bound of the gradient's global norm.
    eval_every: steps between two evaluations. threads: CPU threads, 0 for torch's
    choice. device: "cpu", "cuda", "cuda:N", or "auto"."""

    init: str | None = None
    cutoffs: list[int] = field(default_factory=list)
    batch_size: int = 64
    unroll_steps: int = 20
    epochs: int = 1
    learn_rate: float = 0.002
    final_learn_rate: float = 0.0001
    warmup_steps: int = 200
    clip_norm: float = 5.0
    dropout: float = 0.1
    eval_every: int = 1000
    seed: int = 0
    threads: int = 0
    device: str = "auto"
    save_dtype: str = "float32"


@dataclass(frozen=True)
class PretrainConfig:
    """All of a run. model is None when its sizes come from training.init."""

    text: TextConfig
    vocab: VocabConfig
    model: BiLMConfig | None
    training: TrainingConfig


def read_config(path: Path, overrides: dict[str, Any] | None = None) -> PretrainConfig:
    """Read a `.cfg` file. overrides: "section.name" -> value.

    Raises ValueError [EL037] on a file that can't be read, an unknown or missing
    setting or one of the wrong type; [EL020] on sizes that can't be.
    """
    try:
        settings = Config().from_disk(path, overrides=overrides or {})
    except (OSError, ValueError, ConfigValidationError) as error:
        raise ValueError(Errors.EL037.format(path=path, problem=error)) from error
    known = {"text", "vocab", "model", "training"}
    if unknown := sorted(set(settings) - known - {"paths"}):
        problem = (
            f"unknown section [{unknown[0]}]; known are {', '.join(sorted(known))}"
        )
        raise ValueError(Errors.EL037.format(path=path, problem=problem))
    training = _section(TrainingConfig, settings, "training", path)
    _check_ranges(training, path)
    model = None
    if training.init is None:
        model = BiLMConfig.from_dict(dict(settings.get("model", {})))
        if model.n_words or model.characters != "bytes":
            problem = "a biLM is trained on bytes here: remove n_words and characters"
            raise ValueError(Errors.EL037.format(path=path, problem=problem))
    elif settings.get("model"):
        problem = "sizes come from training.init; remove the section [model]"
        raise ValueError(Errors.EL037.format(path=path, problem=problem))
    return PretrainConfig(
        text=_section(TextConfig, settings, "text", path),
        vocab=_section(VocabConfig, settings, "vocab", path),
        model=model,
        training=training,
    )


def _section(cls: Any, settings: Config, name: str, path: Path) -> Any:
    values = dict(settings.get(name, {}))
    hints = get_type_hints(cls)
    problem = None
    for key, value in values.items():
        if key not in hints:
            problem = f"unknown setting {name}.{key}"
        elif not _fits(value, hints[key]):
            problem = f"{name}.{key} must be {_spell(hints[key])}, found {value!r}"
    for item in fields(cls):
        required = item.default is MISSING and item.default_factory is MISSING
        if required and item.name not in values:
            problem = f"{name}.{item.name} is missing"
    if problem:
        raise ValueError(Errors.EL037.format(path=path, problem=problem))
    return cls(**values)


def _check_ranges(training: TrainingConfig, path: Path) -> None:
    at_least_one = ("batch_size", "unroll_steps", "epochs", "eval_every")
    problems = [
        f"training.{name} must be at least 1, found {getattr(training, name)}"
        for name in at_least_one
        if getattr(training, name) < 1
    ]
    problems += [
        f"training.{name} must be positive, found {getattr(training, name)}"
        for name in ("learn_rate", "clip_norm")
        if not getattr(training, name) > 0
    ]
    if not 0 <= training.dropout < 1:
        problems.append(f"training.dropout must be from 0 to 1, not {training.dropout}")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", training.device):
        problems.append("training.device must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if training.threads < 0:
        problems.append("training.threads must be 0 or more")
    if training.save_dtype not in DTYPES:
        problems.append(f"training.save_dtype must be one of {', '.join(DTYPES)}")
    if problems:
        raise ValueError(Errors.EL037.format(path=path, problem="; ".join(problems)))


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) in (UnionType, Union):
        return any(_fits(value, option) for option in get_args(hint))
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return isinstance(value, list) and all(_fits(v, item) for v in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is hint


def _spell(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint)).replace("NoneType", "null")
