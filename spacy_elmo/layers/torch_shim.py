"""Thinc's PyTorchShim with its faults mended, and safetensors inside.

Differences from the stock shim (thinc 8.3), each held by a test:
- parameter averages reach the weights: `use_params` looks for the keys that the
  optimizer writes;
- a copy gets an id of its own, so it shares no optimizer state with the original;
- optimizer keys can't collide with those of Thinc's own parameters;
- updates are written into the parameters in place: a parameter stays the same tensor,
  and what was computed with its values before is known to be old;
- prediction leaves the module in evaluation mode; mixed precision, which fails on the
  CPU, is not offered;
- no pickle is read, whatever the version of torch.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialize
from safetensors.torch import save as serialize
from thinc.api import ArgsKwargs, Optimizer, torch2xp, xp2torch
from thinc.shims import PyTorchShim
from thinc.shims.shim import Shim
from thinc.types import FloatsXd

from ..errors import Errors

SAVED = "saved pipeline"


class TorchShim(PyTorchShim):
    """Holds a torch module, whose gradients Thinc's optimizer turns into updates."""

    def predict(self, inputs: ArgsKwargs) -> Any:
        """Return what the module returns in evaluation mode, without gradients."""
        self._model.eval()
        with torch.inference_mode(False), torch.no_grad():
            return self._model(*inputs.args, **inputs.kwargs)

    def learns(self, name: str) -> bool:
        """Return whether the parameter of a name takes part in updates."""
        return True

    def finish_update(self, optimizer: Optimizer) -> None:
        """Write the optimizer's updates into the parameters, and drop gradients."""
        for name, parameter in self._model.named_parameters():
            if parameter.grad is not None and self.learns(name):
                weights, _ = optimizer(
                    self.key(name),
                    cast(FloatsXd, torch2xp(parameter.data)),
                    cast(FloatsXd, torch2xp(parameter.grad)),
                )
                _write(parameter, weights)
            parameter.grad = None

    def key(self, name: str) -> tuple[int, str]:
        """Return the key of a parameter in the optimizer's state.

        Models and shims number themselves apart, so a bare name such as "W" could stand
        for a parameter of a Thinc model too.
        """
        return self.id, f"torch.{name}"

    @contextlib.contextmanager
    def use_params(self, params: Any) -> Iterator[None]:
        """Have the parameters hold averages, or other values, for a while."""
        backup = []
        for name, parameter in self._model.named_parameters():
            if self.key(name) in params:
                backup.append((parameter, torch2xp(parameter.data.clone())))
                _write(parameter, params[self.key(name)])
        try:
            yield
        finally:
            for parameter, weights in backup:
                _write(parameter, weights)

    def copy(self) -> "TorchShim":
        """Return a copy with an id of its own."""
        copied = copy.deepcopy(self)
        with Shim.global_id_lock:
            Shim.global_id += 1
            copied.id = Shim.global_id
        return copied

    def to_bytes(self) -> bytes:
        """Return the module's state in the format of safetensors."""
        state = self._model.state_dict()
        return serialize({k: v.detach().cpu().contiguous() for k, v in state.items()})

    def from_bytes(self, bytes_data: bytes) -> "TorchShim":
        """Load the module's state; [EL010] if it is damaged, or of another module."""
        arrays = arrays_from_bytes(bytes_data)
        try:
            self._model.load_state_dict(arrays)
        except RuntimeError as error:  # of several lines
            said = " ".join(str(error).split())
            raise ValueError(Errors.EL010.format(path=SAVED, error=said)) from error
        return self


def run(
    shim: PyTorchShim,
    inputs: tuple[Any, ...],
    is_train: bool,
    pick: Callable[[Any], torch.Tensor] = lambda output: output,
) -> tuple[Any, Callable[[Any], None]]:
    """Return what a shim's module makes of inputs, which gradients don't flow to, and
    the backward pass, both of arrays; `pick` takes the tensor that counts."""
    output, backprop = shim(ArgsKwargs(inputs, {}), is_train)
    Y = pick(output)

    def backprop_array(dY: Any) -> None:
        gradient = xp2torch(dY, device=Y.device)
        backprop(ArgsKwargs(args=((Y,),), kwargs={"grad_tensors": (gradient,)}))

    return torch2xp(Y), backprop_array


def arrays_from_bytes(data: bytes) -> dict[str, torch.Tensor]:
    """Return arrays from the format of safetensors; [EL010] if it is damaged."""
    try:
        return deserialize(data)
    except SafetensorError as error:
        raise ValueError(Errors.EL010.format(path=SAVED, error=error)) from error


@torch.no_grad()
def _write(parameter: torch.Tensor, values: Any) -> None:
    """Write an array into a parameter.

    Not into parameter.data: what is written there goes unnoticed, and vectors that were
    computed before would still be taken for those of these weights.
    """
    parameter.copy_(xp2torch(values, device=parameter.device))
