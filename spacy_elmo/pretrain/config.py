"""What a training run is made of: the sections of a pretraining configuration."""

import configparser
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import catalogue
from confection import Config, ConfigValidationError

from ..bilm import objectives  # noqa: F401  (they register themselves)
from ..bilm.config import BiLMConfig
from ..bilm.files import DTYPES
from ..errors import Errors
from ..registry import registry
from . import optimizers  # noqa: F401

PRECISIONS = ("float32", "bfloat16")


@registry.sections("text")
@dataclass(frozen=True)
class TextConfig:
    """train, dev: text files, one paragraph or sentence a line (.gz, .xz, .bz2, .zst,
    .jsonl too), or one folder that 'spacy elmo prepare' made. also: further held-out
    texts by name, evaluated before and after. lang, tokenizer, sentences: how text
    files are tokenised. processes: how many do so. max_tokens, dev_max_tokens: read no
    more than about so many. note, licence: what the text is, for the model card."""

    train: list[str]
    dev: list[str]
    also: dict[str, list[str]] | None = None
    lang: str = "en"
    tokenizer: str = "spacy"
    sentences: bool = True
    processes: int = 1
    max_tokens: int | None = None
    dev_max_tokens: int | None = None
    note: str = ""
    licence: str = ""


@registry.sections("vocab")
@dataclass(frozen=True)
class VocabConfig:
    """size: words of the softmax at most, its three marks included; 50,000, or what
    prepared text was prepared with, if null. min_count: words seen less often are left
    out."""

    size: int | None = None
    min_count: int = 1


@registry.sections("training")
@dataclass(frozen=True)
class TrainingConfig:
    """init: model folder to go on from, or the name of one that ships. If it has a
    softmax, that is kept with its vocabulary, unless new_softmax. softmax_first:
    steps in which the softmax alone is trained. batch_size: streams, of all
    processes together. accumulate: parts that they are computed in, one after the
    other, to save memory. unroll_steps: tokens a stream is read before the gradient
    is cut. max_steps: stop there, whatever epochs says. clip_norm: bound of the
    gradient's global norm. dropout: on what each LSTM layer and the softmax read.
    precision: "float32", or "bfloat16" for the factors of products. eval_every,
    save_every, log_every: steps between evaluations, checkpoints and lines of the
    log. threads: CPU threads, 0 for torch's choice. device: "cpu", "cuda", "cuda:N",
    or "auto". tensorboard: write its events as well. keep: model-best is the model
    of the lowest dev perplexity; save_dtype: "float32" or "float16"."""

    init: str | None = None
    new_softmax: bool = False
    softmax_first: int = 0
    batch_size: int = 64
    accumulate: int = 1
    unroll_steps: int = 20
    epochs: int = 1
    max_steps: int | None = None
    clip_norm: float = 5.0
    dropout: float = 0.1
    precision: str = "float32"
    eval_every: int = 1000
    save_every: int = 500
    log_every: int = 50
    seed: int = 0
    threads: int = 0
    device: str = "auto"
    save_dtype: str = "float32"
    tensorboard: bool = False


@dataclass(frozen=True)
class PretrainConfig:
    """All of a run. model is None when its sizes come from training.init. blocks: what
    the configuration names in [training.objective], .optimizer, .schedule and .logger,
    as written; `make` builds it."""

    text: TextConfig
    vocab: VocabConfig
    model: BiLMConfig | None
    training: TrainingConfig
    blocks: dict[str, dict[str, Any]]

    def make(self, block: str, default: str | None = None) -> Any:
        """What a block of [training] names; by default what default does."""
        settings = self.blocks.get(block)
        if settings is None:
            if default is None:
                return None
            settings = {f"@{_BLOCKS[block]}": default}
        if block == "logger":  # spaCy's own register themselves where it is imported
            with suppress(ImportError):
                import_module("spacy.training.loggers")
        return registry.resolve({block: settings})[block]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


# Blocks of [training], and the registries they are looked up in.
_BLOCKS = {
    "objective": "objectives",
    "optimizer": "optimizers",
    "schedule": "schedules",
    "logger": "loggers",
}


def read_config(path: Path, overrides: dict[str, Any] | None = None) -> PretrainConfig:
    """Read a `.cfg` file. overrides: "section.name" -> value.

    Raises ValueError [EL037] on a file that can't be read, an unknown or missing
    setting or one of the wrong type; [EL020] on sizes that can't be.
    """
    try:
        settings = dict(Config().from_disk(path, overrides=overrides or {}))
        settings.pop("paths", None)
        training_settings = dict(settings.get("training", {}))
        blocks = {
            name: dict(training_settings.pop(name))
            for name in _BLOCKS
            if training_settings.get(name) is not None
        }
        training_settings = {
            k: v for k, v in training_settings.items() if k not in _BLOCKS
        }
        sections = {**settings, "training": training_settings}
        model_settings = dict(sections.pop("model", {}))
        config = PretrainConfig(
            text=_section("text", sections),
            vocab=_section("vocab", sections),
            model=None,
            training=_section("training", sections),
            blocks=blocks,
        )
        if sections:
            known = ", ".join(
                f"[{name}]" for name in ("model", *registry.sections.get_all())
            )
            raise ValueError(f"unknown section [{min(sections)}]; known are {known}")
        for name, key in _BLOCKS.items():
            if name in blocks and f"@{key}" not in blocks[name]:
                raise ValueError(f"[training.{name}] must name one of the @{key}")
            config.make(name)
        _check_ranges(config.training)
        return PretrainConfig(
            **{
                **config.__dict__,
                "model": _sizes(config.training.init, model_settings),
            }
        )
    except KeyError as error:
        problem = f"it refers to {error}, which it does not have"
        raise ValueError(Errors.EL037.format(path=path, problem=problem)) from error
    except (
        catalogue.RegistryError,
        ConfigValidationError,
        configparser.Error,
    ) as error:
        problem = _one_line(str(error))
        raise ValueError(Errors.EL037.format(path=path, problem=problem)) from error
    except (OSError, ValueError, TypeError, ImportError) as error:
        if str(error).startswith("[EL"):
            raise
        raise ValueError(Errors.EL037.format(path=path, problem=error)) from error


def _section(name: str, sections: dict[str, Any]) -> Any:
    values = sections.pop(name, {})
    return registry.resolve({name: {"@sections": name, **values}})[name]


def _sizes(init: str | None, settings: dict[str, Any]) -> BiLMConfig | None:
    if init is not None:
        if settings:
            raise ValueError(
                "sizes come from training.init; remove the section [model]"
            )
        return None
    model = BiLMConfig.from_dict(settings)
    if model.n_words or model.characters != "bytes":
        raise ValueError(
            "a biLM is trained on bytes here: remove n_words and characters from "
            "[model]"
        )
    return model


def _check_ranges(training: TrainingConfig) -> None:
    at_least_one = "batch_size accumulate unroll_steps epochs eval_every save_every"
    problems = [
        f"training.{name} must be at least 1, found {getattr(training, name)}"
        for name in f"{at_least_one} log_every".split()
        if getattr(training, name) < 1
    ]
    problems += [
        f"training.{name} must be 0 or more, found {getattr(training, name)}"
        for name in ("threads", "softmax_first", "seed")
        if getattr(training, name) < 0
    ]
    if training.max_steps is not None and training.max_steps < 1:
        problems.append("training.max_steps must be at least 1, or null")
    if not training.clip_norm > 0:
        problems.append("training.clip_norm must be positive")
    if not 0 <= training.dropout < 1:
        problems.append(f"training.dropout must be from 0 to 1, not {training.dropout}")
    if training.batch_size % training.accumulate:
        problems.append(
            f"training.batch_size ({training.batch_size}) must be a multiple of "
            f"training.accumulate ({training.accumulate})"
        )
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", training.device):
        problems.append("training.device must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    for name, known in (("precision", PRECISIONS), ("save_dtype", tuple(DTYPES))):
        if getattr(training, name) not in known:
            problems.append(f"training.{name} must be one of {', '.join(known)}")
    if problems:
        raise ValueError("; ".join(problems))


def _one_line(message: str) -> str:
    """confection's message without the dump of the section below it."""
    lines = [" ".join(line.split()) for line in message.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("{", "Config "))]
    return "; ".join(kept) or message


def parse_overrides(args: Sequence[str]) -> dict[str, Any]:
    """--section.name VALUE pairs, as of spaCy's own commands: JSON, else a string.

    Raises ValueError [EL037].
    """
    overrides: dict[str, Any] = {}
    rest = list(args)
    while rest:
        name = rest.pop(0)
        name, equals, value = name.partition("=")
        if not name.startswith("--") or "." not in name or not (equals or rest):
            problem = f"{name!r} is not an override such as --training.epochs 2"
            raise ValueError(Errors.EL037.format(path="command line", problem=problem))
        value = value if equals else rest.pop(0)
        try:
            overrides[name[2:]] = json.loads(value)
        except ValueError:
            overrides[name[2:]] = value
    return overrides
