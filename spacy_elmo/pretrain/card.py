"""What a model card says of the machine."""

import platform

import torch

from ..machine import cpu_model


def processor() -> str:
    """Return the processor's model and architecture, as far as the system tells."""
    model = cpu_model() or platform.processor()
    return " ".join(dict.fromkeys(filter(None, (model, platform.machine()))))


def describe(device: torch.device) -> str:
    """Return a device's name; a GPU's with its model and the most memory that was taken
    of it, in GiB."""
    if device.type != "cuda":
        return str(device)
    peak = torch.cuda.max_memory_allocated(device) / (1 << 30)
    return f"{device} ({torch.cuda.get_device_name(device)}, {peak:.1f} GiB taken)"
