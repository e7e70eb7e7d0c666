"""Configuration files (.cfg) -> the settings of a training run."""

import configparser
import json
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import catalogue
from confection import Config, ConfigValidationError
from pydantic import ValidationError

from ..bilm.config import BiLMConfig
from ..errors import Errors
from .config import (
    BLOCKS,
    PretrainConfig,
    Section,
    TextConfig,
    TrainingConfig,
    VocabConfig,
)

S = TypeVar("S", bound=Section)
SECTIONS = ("text", "vocab", "model", "training", "paths")


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
        return _parse(dict(Config().from_disk(path, overrides=overrides or {})))
    except KeyError as error:
        problem = f"it refers to {error}, which it does not have"
    except (
        catalogue.RegistryError,
        ConfigValidationError,
        configparser.Error,
    ) as error:
        problem = _one_line(str(error))
    except (OSError, ValueError, TypeError, ImportError) as error:
        if str(error).startswith("[EL"):
            raise
        problem = str(error)
    raise ValueError(Errors.EL037.format(path=path, problem=problem))


def parse_overrides(args: Sequence[str]) -> dict[str, Any]:
    """Return the values of `--section.name VALUE` arguments, as spaCy's commands take
    them: JSON, else a string.

    Raises:
        ValueError: [EL037] An argument is none of them.
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


def _parse(sections: dict[str, Any]) -> PretrainConfig:
    unknown = sorted(set(sections) - set(SECTIONS))
    if unknown:
        shown = ", ".join(f"[{name}]" for name in SECTIONS if name != "paths")
        raise ValueError(f"unknown section [{unknown[0]}]; there are {shown}")
    training = dict(sections.get("training", {}))
    blocks = {name: training.pop(name, None) for name in BLOCKS}
    config = PretrainConfig(
        text=_section(TextConfig, "text", sections.get("text", {})),
        vocab=_section(VocabConfig, "vocab", sections.get("vocab", {})),
        model=_sizes(training.get("init"), dict(sections.get("model", {}))),
        training=_section(TrainingConfig, "training", training),
        blocks={name: dict(block) for name, block in blocks.items() if block},
    )
    for name, block in config.blocks.items():
        if f"@{BLOCKS[name][0]}" not in block:
            raise ValueError(
                f"[training.{name}] must name one of the @{BLOCKS[name][0]}"
            )
    # Settings of the blocks are checked by building them.
    config.objective(), config.optimizer(), config.schedule(), config.logger()
    return config


def _section(schema: type[S], name: str, values: dict[str, Any]) -> S:
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        problems = []
        for found in error.errors():
            where = ".".join(map(str, (name, *found["loc"])))
            message = found["msg"].removeprefix("Value error, ")
            if found["loc"] and found["type"] not in ("missing", "extra_forbidden"):
                message += f", found {reprlib.repr(found['input'])}"
            problems.append(f"{where}: {message}")
        raise ValueError("; ".join(problems)) from error


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


def _one_line(message: str) -> str:
    """Return confection's message without the dump of the section below it."""
    lines = [" ".join(line.split()) for line in message.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("{", "Config "))]
    return "; ".join(kept) or message
