"""A GPU without data: what would make a real one be waited for is listed.

torch's part are tensors on "meta", which have shapes alone. CuPy's part are arrays that
take NumPy's functions, but, as CuPy's, no arrays of the host.
"""

from contextlib import contextmanager, nullcontext
from typing import ClassVar

import numpy as np
import torch
from thinc.api import NumpyOps, get_current_ops, set_current_ops
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import fast_bilm, kernel
from spacy_elmo.pipeline import encoder, shim

BUSY, IDLE = "wait for a part", "wait for all"
WAIT = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2")


class Stream:
    """What the GPU was given to do; also an event in it."""

    def __init__(self, waits, launched=0):
        self.waits, self.launched = waits, launched

    def record_event(self):
        return Stream(self.waits, self.waits.launched)

    def synchronize(self):
        """Wait for this event: while the GPU does what it was given later, or nothing
        any more."""
        is_busy = self.waits.launched > self.launched
        self.waits.found.append(BUSY if is_busy else IDLE)


class Waits(TorchDispatchMode):
    """Lists what would make a GPU be waited for."""

    def __init__(self):
        super().__init__()
        self.found, self.launched = [], 0
        self.finite = True  # whether vectors are

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        devices = {tensor.device.type for tensor in tensors}
        if "device" in kwargs and kwargs["device"] is not None and tensors:
            devices.add(torch.device(kwargs["device"]).type)
        self.launched += devices != {"cpu"}
        to_host = torch.device("cpu") == kwargs.get("device")
        if name == "_to_copy" and to_host and tensors[0].is_meta:
            if not kwargs.get("non_blocking"):
                self.found.append("copy to the host")
            number = 1.0 if self.finite else torch.nan
            value = self.finite if tensors[0].dtype == torch.bool else number
            return torch.full_like(tensors[0], value, device="cpu")
        if name in WAIT:
            if devices != {"cpu"}:
                self.found.append(name)
                if name == "_local_scalar_dense":
                    return True  # a number of a device without data
        elif name.startswith("index") and len(args) > 1:
            masks = args[1] if isinstance(args[1], (list, tuple)) else []
            if any(m is not None and m.dtype == torch.bool for m in masks):
                self.found.append(name)
        elif name in ("_to_copy", "copy_") and len(devices) > 1:
            free = kwargs.get("non_blocking") or (len(args) > 2 and args[2])
            to_gpu = tensors[0].device.type == "cpu" or name == "copy_"
            if not (free and to_gpu):
                self.found.append(f"{name} {devices}")
        return func(*args, **kwargs)


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a GPU. `waits` lists what waited, for all arrays."""

    waits: ClassVar[list[str]] = []

    def __init__(self, data):
        self.data = data

    def __getattr__(self, name):
        value = getattr(self.data, name)
        if callable(value):
            if name in ("get", "item", "tolist", "tobytes"):
                Array.waits.append(name)
            return lambda *args, **kwargs: wrapped(value, args, kwargs)
        return Array(value) if isinstance(value, np.ndarray) else value

    def __len__(self):
        return len(self.data)

    def __array__(self, *args, **kwargs):
        raise TypeError("no implicit conversion to an array of the host")

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        return wrapped(getattr(ufunc, method), args, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return wrapped(function, args, kwargs)

    def __bool__(self):
        Array.waits.append("bool")
        return bool(self.data)

    def __float__(self):
        Array.waits.append("float")
        return float(self.data)

    __int__ = __index__ = __float__

    def __getitem__(self, key):
        return wrapped(self.data.__getitem__, (key,), {})

    def __setitem__(self, key, value):
        wrapped(self.data.__setitem__, (key, value), {})


def wrapped(function, args, kwargs):
    """Call a function of NumPy with arrays of the GPU alone."""

    def inside(value):
        if isinstance(value, np.ndarray):
            raise TypeError(f"{function} of an array of the host")
        if isinstance(value, (list, tuple)):
            return type(value)(map(inside, value))
        return value.data if isinstance(value, Array) else value

    found = function(*map(inside, args), **{k: inside(v) for k, v in kwargs.items()})
    is_array = isinstance(found, (np.ndarray, np.generic))
    return Array(np.asarray(found)) if is_array else found


class Module:
    """What CuPy is to an Ops: its functions."""

    def __getattr__(self, name):
        value = getattr(np, name)
        if isinstance(value, type) or not callable(value):
            return value
        return lambda *args, **kwargs: wrapped(value, args, kwargs)

    def asarray(self, data, *args, **kwargs):
        if isinstance(data, Array):
            return data
        Array.waits.append("pageable copy")
        return Array(np.asarray(data, *args, **kwargs))


class Ops(NumpyOps):
    """Thinc's operations on such arrays, as far as this package uses them."""

    name = "fake gpu"
    xp = Module()

    def alloc(self, shape, *, dtype="float32", zeros=True):
        return Array(np.zeros(shape, dtype))

    def asarray(self, data, dtype=None):
        return self.xp.asarray(data, dtype=dtype)


def take_meta_for_a_gpu(monkeypatch):
    """Choose the kernels of a GPU for a device without data, which has no autocast."""

    def dispatch_key_of(*args):
        return kernel.dispatch_key_of(*args)._replace(device="cuda")

    monkeypatch.setattr(fast_bilm, "dispatch_key_of", dispatch_key_of)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)


@contextmanager
def gpu(monkeypatch):
    """Put what is made inside on such a GPU. Yields what torch does, as `Waits`."""
    with monkeypatch.context() as patch:
        take_meta_for_a_gpu(patch)
        # It can't be left, and has no streams.
        patch.setattr(BiLM, "to", lambda bilm, device: bilm)
        patch.setattr(shim.BiLMShim, "has_weights", True)
        for module in (shim, encoder):
            patch.setattr(module, "torch2xp", to_array)
            patch.setattr(module, "xp2torch", to_tensor)
        before, Array.waits = get_current_ops(), []
        set_current_ops(Ops())
        try:
            with Waits() as waits:
                stream = Stream(waits)
                patch.setattr(torch.accelerator, "current_stream", lambda _: stream)
                yield waits
        finally:
            set_current_ops(before)


def to_array(tensor):
    """Both see the same memory, so that nothing is copied."""
    assert tensor.is_meta, "an array of the host came to CuPy"
    dtypes = {torch.float32: np.float32, torch.int64: np.int64}
    return Array(np.zeros(tuple(tensor.shape), dtypes[tensor.dtype]))


def to_tensor(array, device=None):
    """As above."""
    assert array.size, "CuPy asks CUDA about an address, and there is none"
    return torch.empty(array.shape, device="meta")
