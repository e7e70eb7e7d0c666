"""Settings that are said once, in a class, and shown in every configuration."""

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel

F = TypeVar("F", bound=Callable[..., Any])
CHECKED = int, float, bool, str, type(None)


def takes_fields_of(settings: type) -> Callable[[F], F]:
    """Return a decorator for a function that takes **settings: its signature names the
    fields of a dataclass or of a pydantic model, with their defaults.

    Configurations are filled in and checked by the signatures of registered functions.
    Types other than plain values are left to the checks of the class itself, whose
    messages say more.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        defaults = _plain(_values(settings()))
        hints = get_type_hints(settings)
        named = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=_checked(hints[name]),
            )
            for name, default in defaults.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return decorate


def _values(settings: Any) -> dict[str, Any]:
    if isinstance(settings, BaseModel):
        return settings.model_dump()
    return asdict(settings)


def _plain(value: Any) -> Any:
    """Return a value with lists in place of tuples, as configurations hold it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return (
        [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
    )


def _checked(hint: Any) -> Any:
    return hint if all(kind in CHECKED for kind in get_args(hint) or [hint]) else Any
