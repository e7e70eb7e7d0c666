"""State dicts of optimizers, whatever is in them, as named arrays and JSON."""

from typing import Any

from torch import Tensor

Arrays = dict[str, Tensor]


def flatten(value: Any, name: str, arrays: Arrays) -> Any:
    """Put the tensors of nested dicts, lists and tuples into arrays, under names that
    begin with `name`, and return the rest for JSON. Raises TypeError on other types."""
    if isinstance(value, Tensor):
        name = name if name not in arrays else f"{name}.{len(arrays)}"
        arrays[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        items = [[k, flatten(v, f"{name}.{k}", arrays)] for k, v in value.items()]
        return {"dict": items}
    if isinstance(value, (list, tuple)):
        parts = [flatten(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{name} is of type {type(value).__name__}")


def unflatten(value: Any, arrays: Arrays) -> Any:
    """Return the nested value that `flatten` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return arrays[content]
    if kind == "dict":
        return {key: unflatten(item, arrays) for key, item in content}
    parts = [unflatten(item, arrays) for item in content]
    return tuple(parts) if kind == "tuple" else parts
