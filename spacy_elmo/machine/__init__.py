"""The machine: processors, threads, forks, and copies to a device and back."""

from .forks import ProcessLock, safe_from_forks
from .forks import prepare as prepare_for_forks
from .processor import (
    INSTRUCTIONS,
    PRECISIONS,
    Precision,
    check_name,
    cpu_model,
    describe_cpu,
    device_name,
    has_bfloat16_products,
    instructions,
    onednn_is_on,
)
from .settings import default_settings, float32_mode, thread_count
from .transfer import (
    CPU_BATCH_LIMITS,
    GPU_BATCH_LIMITS,
    batch_limits,
    copy_rows,
    join_rows,
    put_rows,
    take_rows,
    to_device,
    to_host,
    zeros,
)

__all__ = [
    "CPU_BATCH_LIMITS", "GPU_BATCH_LIMITS", "INSTRUCTIONS", "PRECISIONS",
    "Precision", "ProcessLock", "batch_limits", "check_name", "copy_rows", "cpu_model",
    "default_settings", "describe_cpu", "device_name", "float32_mode",
    "has_bfloat16_products", "instructions", "join_rows", "onednn_is_on",
    "prepare_for_forks", "put_rows", "safe_from_forks", "take_rows", "thread_count",
    "to_device", "to_host", "zeros",
]  # fmt: skip
