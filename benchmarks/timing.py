"""Options of all benchmarks, the speed of a large matrix product, the memory in use."""

import psutil
import torch

from spacy_elmo.bilm.kernels.choose import choose_matmul
from spacy_elmo.bilm.kernels.matmul import Weight
from spacy_elmo.bilm.kernels.processor import Settings, case_of
from spacy_elmo.speed import Run, in_turn

MODEL = "Model folder, a name that ships, or a published size: small, medium, original"
TEXT = "A folder that 'prepare' made; made-up text if none is given"
DEVICE = "cpu, cuda, or the number of a GPU: cuda:1"


@torch.no_grad()
def matrix_peak(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """Return FLOP a second of a large product: torch's own or, in float32 on a CPU, the
    one that inference is made of, where that is faster."""
    size = 8192 if device.type == "cuda" else 2048
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    kept = Weight(b, rules=choose_matmul(case_of(Settings(), b)), is_copy=True)

    def product() -> float:
        a @ b
        return 2.0 * size**3

    def kept_product() -> float:
        kept.at(size).linear(a)
        return 2.0 * size**3

    runs: dict[str, Run] = {"torch": product}
    if device.type == "cpu" and dtype == torch.float32:
        runs["kept"] = kept_product
    return max(in_turn(runs, 5).values())


def memory_in_use(device: torch.device) -> int:
    """Return bytes: of the process, or the most that were taken of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)
