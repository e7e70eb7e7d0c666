"""What computes the biLM: one file a kernel (kernel.py says what a kernel is), plan.py
chooses, fast_bilm.py computes.

To add a kernel, write a file with the functions of `TokenKernel` or `LstmKernel`, and
name it in plan.py and forced.py.
"""

from .fast_bilm import FastBiLM
from .forced import force, forced_kernels
from .kernel import Case, LstmKernel, TokenKernel, case_of
from .native import describe_library, find_library
from .plan import (
    check_precision,
    check_training_precision,
    choose_all,
    choose_gradients,
    choose_training_matmul,
)
from .prepared import Prepared, PreparedWeights, key_of
from .training_matmul import multiply_by

__all__ = [
    "Case", "FastBiLM", "LstmKernel", "Prepared", "PreparedWeights", "TokenKernel",
    "case_of", "check_precision", "check_training_precision", "choose_all",
    "choose_gradients", "choose_training_matmul", "describe_library",
    "find_library", "force", "forced_kernels", "key_of", "multiply_by",
]  # fmt: skip
