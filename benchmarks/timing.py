"""Timing on machines that other work runs on: in turn, and the median."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import torch

from spacy_elmo.bilm.kernels.products import Product


def in_turn(
    runs: Mapping[str, Callable[[], float]],
    rounds: int,
    device: torch.device,
    tell: Callable[[str], object] = lambda text: None,
) -> dict[str, float]:
    """Units a second of each run, the median of rounds in which all have their turn.

    runs: name -> what does some work and says how many units it was. One round more is
    made first, and not counted.
    """
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            tell(f"round {number} of {rounds}: {name}")
            _finish(device)
            started = time.perf_counter()
            units = run()
            _finish(device)
            if number:
                speeds[name].append(units / (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in speeds.items()}


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_peak(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """FLOP a second of a large product: of torch's own, or, in float32 on a CPU, of the
    one that inference is made of, where it is faster."""
    size = 8192 if device.type == "cuda" else 2048
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    kept = Product(torch.clone)

    @torch.no_grad()
    def product() -> float:
        a @ b
        return 2.0 * size**3

    @torch.no_grad()
    def kept_product() -> float:
        kept(a, b)
        return 2.0 * size**3

    if device.type == "cpu" and dtype == torch.float32:
        return max(
            in_turn({"torch": product, "kept": kept_product}, 5, device).values()
        )

    return in_turn({"product": product}, 5, device)["product"]


def machine(device: torch.device) -> dict[str, Any]:
    """What a figure was measured on."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        models = [line.split(":")[1].strip() for line in lines if "model name" in line]
        name = models[0] if models else name
    found: dict[str, Any] = {
        "cpu": name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def memory_in_use(device: torch.device) -> int:
    """Bytes: of the process, or the most that were taken of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)
