"""What computes the biLM: one file a kernel (kernel.py says what a kernel is), plan.py
chooses, fast_bilm.py computes.

To add a kernel, write a file with the functions of `TokenKernel` or `LstmKernel`, and
name it in plan.py and in KERNELS.
"""

from .char_cnn import encode as encode_characters
from .char_cnn import prepare as prepare_characters
from .fast_bilm import FastBiLM, Prepared, PreparedWeights, key_of
from .kernel import (
    KERNELS,
    Case,
    LstmKernel,
    TokenKernel,
    case_of,
    describe_library,
    find_library,
    force,
    forced_kernels,
)
from .plan import (
    check_precision,
    check_training_precision,
    choose_all,
    choose_gradients,
    choose_training_matmul,
)
from .training_matmul import multiply_by

__all__ = [
    "KERNELS", "Case", "FastBiLM", "LstmKernel", "Prepared", "PreparedWeights",
    "TokenKernel",
    "case_of", "check_precision", "check_training_precision", "choose_all",
    "choose_gradients", "choose_training_matmul", "describe_library",
    "encode_characters", "find_library", "force", "forced_kernels", "key_of",
    "multiply_by", "prepare_characters",
]  # fmt: skip
