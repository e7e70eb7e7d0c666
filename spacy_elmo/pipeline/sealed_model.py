"""Checksums of what pipelines save: of the component's whole model, and of each mix,
which stands among the weights of a component that listens."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import srsly
from thinc.api import Model, to_numpy
from thinc.shims.shim import Shim

from ..errors import ElmoError, Errors
from ..files import (
    bytes_with_checksum,
    parsing,
    read_bytes,
    sha256_of,
    write_files,
)

SAVED, SAVED_AS = "saved pipeline", "an elmo component"


class CheckedModel(Model[Any, Any]):
    """A model whose bytes have a checksum, and whose file is replaced as a whole."""

    def to_bytes(self) -> bytes:
        """Return the model as bytes."""
        return bytes_with_checksum(super().to_bytes())

    def from_bytes(self, bytes_data: bytes) -> "CheckedModel":
        """Load what `to_bytes` returned; warn [ELW52] if it has no checksum. Raises
        ValueError [EL002] if it was changed, or is of another model."""
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            message = srsly.msgpack_loads(read_bytes(bytes_data, SAVED))
            _check_parts(message, list(self.walk()))
        try:
            self.from_dict(message)
        except ElmoError:
            raise
        except ValueError as error:  # Thinc's, of sizes that are others
            values = {"path": SAVED, "format": SAVED_AS, "error": error}
            raise Errors.EL002(**values) from error
        return self

    def to_disk(self, path: Path | str) -> None:
        """Write the file. Raises OSError [EL013] if it can't be written."""
        path, data = Path(path), self.to_bytes()
        write_files(path.parent, {path.name: partial(Path.write_bytes, data=data)})


def _check_parts(message: dict[str, Any], nodes: list[Model[Any, Any]]) -> None:
    """Raise ValueError, or another exception, unless a message has what Thinc's
    `Model.from_dict` reads of each of these nodes."""
    parts = zip(message["nodes"], message["attrs"], message["shims"], strict=True)
    for node, (info, attrs, shims) in zip(nodes, parts, strict=True):
        is_whole = (
            isinstance(info["name"], str)
            and info["dims"].keys() == set(node.dim_names)
            and all(size is None or type(size) is int for size in info["dims"].values())
            and not info["refs"]
            and all(isinstance(name, str) for name in attrs)
            and [type(data) for data in shims] == [bytes] * len(node.shims)
        )
        if not is_whole:
            raise ValueError(f"its part '{node.name}' is of another model")
        for value in attrs.values():
            srsly.msgpack_loads(value)
    if message["params"] != [{} for _ in nodes]:
        raise ValueError("it has parameters of another model")


class MixChecksum(Shim):
    """Saved with a mix, and compared when it is loaded. It also tells the mix that its
    component has finished an update: Thinc tells the shims of a model alone."""

    def to_bytes(self) -> bytes:
        """Return the checksum of the mix."""
        mix = self._model
        found = {"name": mix.name, **mix.attrs}
        found |= {
            name: mix.get_dim(name) for name in mix.dim_names if mix.has_dim(name)
        }
        for name in filter(mix.has_param, mix.param_names):
            found[name] = to_numpy(mix.get_param(name)).tolist()
        return sha256_of(json.dumps(found, sort_keys=True)).encode()

    def from_bytes(self, data: bytes) -> "MixChecksum":
        """Raise ValueError [EL010] if the mix is not the one that was saved."""
        if data != self.to_bytes():
            problem = f"the mix of '{self._model.name}' was changed after it was saved"
            raise ValueError(Errors.EL010.format(path=SAVED, error=problem))
        return self

    def finish_update(self, optimizer: Any) -> None:
        """End the update of the mix."""
        self._model.end_update()

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing."""
