"""What a GPU did, from a trace of PyTorch's profiler: kernels, gaps, copies and waits.

It sees the launches of CuPy and Triton too.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
WAITS = ("Synchronize", "cudaEventQuery")


def traced(run: Callable[[], Any], device: str) -> list[dict[str, Any]]:
    """Return the events of a run, in Chrome's format, times in microseconds."""
    kinds = [ProfilerActivity.CPU]
    if device != "cpu":
        kinds.append(ProfilerActivity.CUDA)
        torch.cuda.synchronize()
    with profile(activities=kinds) as profiler:
        run()
        if device != "cpu":
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def summary(events: list[dict[str, Any]], tokens: float) -> dict[str, Any]:
    """Return launches a token, and the share of the time from the first kernel to the
    last in which the GPU had nothing to do."""
    work = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") in ON_GPU
    )
    kernels = sum(event.get("cat") == "kernel" for event in events)
    if not work:
        return {"kernels a token": None, "idle": None, "ms": None}
    busy, reached = 0.0, work[0][0]
    for begin, end in work:
        busy += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    whole = reached - work[0][0]
    return {
        "kernels a token": kernels / tokens,
        "kernels": kernels,
        "idle": 1 - busy / whole,
        "ms": whole / 1000,
    }


def longest(events: list[dict[str, Any]], n: int = 12) -> list[dict[str, Any]]:
    """Return the kernels that took most of the time, together."""
    spent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for event in events:
        if event.get("cat") in ON_GPU:
            spent[event["name"][:90]] += event["dur"]
            calls[event["name"][:90]] += 1
    total = sum(spent.values()) or 1
    return [
        {"kernel": name, "calls": calls[name], "share": us / total}
        for name, us in spent.most_common(n)
    ]


def copies_and_waits(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how often each kind of copy between host and GPU was made, with bytes, and
    how often the host waited. (The profiler itself waits once or twice at the end.)"""
    times: Counter[str] = Counter()
    n_bytes: Counter[str] = Counter()
    for event in events:
        name = event.get("name", "")
        is_wait = any(part in name for part in WAITS)
        if event.get("cat") == "gpu_memcpy" and "DtoD" not in name:
            times[name] += 1
            n_bytes[name] += int(event.get("args", {}).get("bytes", 0))
        elif event.get("cat") in ("cuda_runtime", "cuda_driver") and is_wait:
            times[name] += 1
    return [
        {"what": name, "times": n, "bytes": n_bytes[name]}
        for name, n in times.most_common()
    ]
