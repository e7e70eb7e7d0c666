"""Settings that are said once, in a dataclass, and shown in every configuration."""

import inspect
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar, get_args, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])
CHECKED = int, float, bool, str, type(None)


def takes_fields_of(settings: type) -> Callable[[F], F]:
    """Return a decorator for a function that takes **settings: its signature names the
    fields of a dataclass, with their defaults.

    Configurations are filled in and checked by the signatures of registered functions.
    Types other than plain values are left to the checks of the dataclass itself, whose
    messages say more.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        defaults = _plain(asdict(settings()))
        hints = get_type_hints(settings)
        named = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[field.name],
                annotation=_checked(hints[field.name]),
            )
            for field in fields(settings)
        ]
        function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return decorate


def _plain(value: Any) -> Any:
    """Return a value with lists in place of tuples, as configurations hold it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return (
        [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
    )


def _checked(hint: Any) -> Any:
    return hint if all(kind in CHECKED for kind in get_args(hint) or [hint]) else Any
