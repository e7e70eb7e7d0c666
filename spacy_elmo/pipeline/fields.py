"""Settings that are said once, in a class, and shown in every configuration."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter

F = TypeVar("F", bound=Callable[..., Any])
CHECKED = int, float, bool, str, type(None)


def takes_fields_of(settings: type) -> Callable[[F], F]:
    """Return a decorator for a function that takes **settings: its signature names the
    fields of a dataclass or of a pydantic model, with their defaults.

    Configurations are filled in and checked by the signatures of registered functions.
    Types other than plain values are left to the checks of the class itself, whose
    messages say more.
    """
    # With lists in place of tuples, as configurations hold them.
    defaults = TypeAdapter(settings).dump_python(settings(), mode="json")
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

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return decorate


def _checked(hint: Any) -> Any:
    return hint if all(kind in CHECKED for kind in get_args(hint) or [hint]) else Any
