"""The processes of a run: one, or those that torchrun started, on one node or several.

Each reads some of the streams. Gradients are averaged, so that a step is the same as
that of one process with all streams.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from ..bilm import BiLMState
from ..bilm.kernels import choose_gradients
from ..errors import Errors
from ..machine import default_settings, float32_mode, prepare_for_forks
from .config import TrainingConfig
from .optimizers import values


@dataclass(frozen=True)
class Workers:
    """The processes of a run, as one of them sees them.

    Attributes:
        rank: Number of this process.
        size: Number of all processes.
        device: Device of this process.
        n_sharing: Processes that share the memory of this device.
        control: Group for numbers of the CPU, which need no GPU; None in a process that
            torchrun did not start.
    """

    rank: int
    size: int
    device: torch.device
    n_sharing: int = 1
    control: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.control:
            dist.barrier(group=self.control)

    def sum(self, numbers: Iterable[float]) -> list[float]:
        """Return each number summed over all processes."""
        total = torch.tensor(list(numbers), dtype=torch.float64)
        if self.control:
            dist.all_reduce(total, group=self.control)
        return list(total.tolist())

    def agree(self, value: str | int) -> bool:
        """Return whether a value is the same in all processes."""
        return len(set(self._of_all(value))) == 1

    def union(self, words: np.ndarray) -> np.ndarray:
        """Return the distinct words of all processes, sorted."""
        return np.unique(np.concatenate(self._of_all(np.unique(words))))

    def _of_all(self, value: Any) -> list[Any]:
        """Return the value of each process."""
        found = [value] * self.size
        if self.control:
            dist.all_gather_object(found, value, group=self.control)
        return found

    @contextmanager
    def averaging(self, parameters: Iterable[Parameter]) -> Iterator[None]:
        """Average gradients over all processes: after the backward pass in the block,
        or during it, as `choose_gradients` says. Sparse gradients must have the same
        rows in all processes. A missing one, of a cluster without a target, counts as
        zeros."""
        # The order is the same in all processes, and about that of the backward pass.
        waiting, ready, sums = list(parameters)[::-1], set[int](), []

        def send(parameter: Parameter) -> None:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            elif parameter.grad.is_sparse:  # of several parts: added up, row by row
                parameter.grad = parameter.grad.coalesce()
            if self.control:
                gradient = values(parameter.grad)
                sums.append((dist.all_reduce(gradient, async_op=True), gradient))

        def send_in_order(parameter: Tensor) -> None:
            ready.add(id(parameter))
            while waiting and id(waiting[0]) in ready:
                send(waiting.pop(0))

        overlaps = self.control and choose_gradients(self.device.type) == "overlapped"
        early = waiting if overlaps else []
        hooks = [p.register_post_accumulate_grad_hook(send_in_order) for p in early]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        for parameter in waiting:
            send(parameter)
        for work, gradient in sums:
            work.wait()
            gradient.div_(self.size)

    def gather(self, state: BiLMState) -> BiLMState:
        """Return the state of the streams of all processes, in order, on the CPU."""
        return state.map(lambda part: torch.cat(self._of_all(part.cpu()), dim=1))


# A run of one process.
ALONE = Workers(0, 1, torch.device("cpu"))


@contextmanager
def joined(device: str) -> Iterator[Workers]:
    """Join the other processes, if torchrun has started some, until the block ends.
    `device` is the setting of the configuration. Raises ValueError [EL037] if there is
    no such device."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    n_sharing = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = device.partition(":")
    on = torch.device(kind)
    if kind == "cuda":
        number = int(os.environ["LOCAL_RANK"]) if size > 1 else int(index or 0)
        if number >= (n_gpus := torch.cuda.device_count()):
            problem = (
                f"device {number} is no GPU: torch finds {n_gpus or 'no GPU'}; "
                "device = 'auto' takes what is there"
            )
            raise Errors.EL037(path="training.device", problem=problem)
        on, n_sharing = torch.device("cuda", number), 1
        torch.cuda.set_device(on)
    if size == 1 and not dist.is_torchelastic_launched():
        yield Workers(0, 1, on)
        return
    patience = timedelta(days=7)  # the first may prepare text for hours
    backend = "nccl" if on.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=patience)
    control = dist.new_group(backend="gloo", timeout=patience)
    try:
        yield Workers(dist.get_rank(), size, on, n_sharing, control)
    finally:
        dist.destroy_process_group()


@contextmanager
def torch_settings(training: TrainingConfig, device: torch.device) -> Iterator[None]:
    """Set torch's threads, precision and whatever else the process may have changed. At
    the end restore all of it, and the random numbers of the process."""
    gpus = [device] if device.type == "cuda" else []
    with ExitStack() as scope:
        scope.callback(torch.set_num_threads, torch.get_num_threads())
        scope.callback(torch.set_default_dtype, torch.get_default_dtype())
        if training.threads:
            torch.set_num_threads(training.threads)
        prepare_for_forks()
        torch.set_default_dtype(torch.float32)  # for tensors that other packages make
        scope.enter_context(default_settings(gradient=True, matmul=False))
        scope.enter_context(torch.random.fork_rng(gpus))
        if training.precision == "bfloat16":  # what stays float32 may use TF32
            backends: Any = torch.backends
            for backend in (backends.cuda.matmul, backends.mkldnn.matmul):
                precision = backend.fp32_precision
                scope.callback(setattr, backend, "fp32_precision", precision)
                backend.fp32_precision = "tf32"
        else:
            scope.enter_context(float32_mode(training.precision, device.type))
        yield
