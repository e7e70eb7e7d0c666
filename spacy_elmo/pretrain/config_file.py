"""Reading the settings of a run from a configuration file (.cfg)."""

import configparser
import json
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confection import Config
from pydantic import ValidationError

from ..bilm import BiLMConfig
from ..errors import ElmoError, Errors
from ..files import MAX_JSON, check_plain, decode, named_path
from .config import BLOCKS, PretrainConfig

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
        file = named_path(path)
        check_plain(file, MAX_JSON)
        text = decode(file.read_bytes())
        return _parse(dict(Config().from_str(text, overrides=overrides or {})))
    except ElmoError:
        raise
    except KeyError as error:
        problem = f"it refers to {error}, which it does not have"
    except ValidationError as error:
        problem = _settings(error)
    except (
        OSError,
        ValueError,
        TypeError,
        ImportError,
        ArithmeticError,
        configparser.Error,
    ) as error:
        problem = _one_line(str(error))
    raise Errors.EL037(path=path, problem=problem)


def parse_overrides(args: Sequence[str]) -> dict[str, Any]:
    """Return the values of `--section.name VALUE` arguments, as spaCy's commands take
    them: JSON, else a string. Raises ValueError [EL037] on other arguments."""
    overrides: dict[str, Any] = {}
    rest = list(args)
    while rest:
        name = rest.pop(0)
        name, equals, value = name.partition("=")
        if not name.startswith("--") or "." not in name or not (equals or rest):
            problem = f"{name!r} is not an override such as --training.epochs 2"
            raise Errors.EL037(path="command line", problem=problem)
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
    sections.pop("paths", None)
    training = dict(sections.get("training", {}))
    written = {name: training.pop(name, None) for name in BLOCKS}
    blocks = {name: dict(block) for name, block in written.items() if block}
    for name, block in blocks.items():
        if f"@{BLOCKS[name][0]}" not in block:
            problem = f"[training.{name}] must name one of the @{BLOCKS[name][0]}"
            raise ValueError(problem)
    model = _sizes(training.get("init"), sections.pop("model", {}))
    given = {"text": {}, "vocab": {}, **sections, "training": training}
    config = PretrainConfig.model_validate({**given, "model": model, "blocks": blocks})
    # Settings of the blocks are checked by building them.
    config.objective(), config.optimizer(), config.schedule(), config.logger()
    return config


def _sizes(init: str | None, settings: dict[str, Any]) -> BiLMConfig | None:
    if init is not None:
        if settings:
            problem = "sizes come from training.init; remove the section [model]"
            raise ValueError(problem)
        return None
    model = BiLMConfig.from_dict(settings)
    if model.characters != "bytes":
        raise ValueError("a biLM is trained on bytes: remove characters from [model]")
    return model


def _settings(error: ValidationError) -> str:
    """Return pydantic's message in one line, with the values it found."""
    problems = []
    for found in error.errors():
        message = found["msg"].removeprefix("Value error, ")
        misnamed = found["type"] in ("missing", "extra_forbidden")
        if len(found["loc"]) > 1 and not misnamed:
            message += f", found {reprlib.repr(found['input'])}"
        problems.append(f"{'.'.join(map(str, found['loc']))}: {message}")
    return "; ".join(problems)


def _one_line(message: str) -> str:
    """Return confection's message without the dump of the section below it."""
    lines = [" ".join(line.split()) for line in message.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("{", "Config "))]
    return "; ".join(kept) or message
