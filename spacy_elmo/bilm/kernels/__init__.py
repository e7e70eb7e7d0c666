"""Kernels compute the functions of the biLM faster than the definition.

One file holds one kernel. kernel.py has their protocol and says how to add one, plan.py
chooses among them, and fast_bilm.py runs them. docs/kernels.md says where the figures
in these files come from.
"""

from .char_cnn import encode as encode_characters
from .char_cnn import prepare as prepare_characters
from .fast_bilm import FastBiLM
from .forced import force, forced_kernels
from .kernel import DispatchKey, LstmKernel, TokenKernel, dispatch_key_of
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
    "DispatchKey", "FastBiLM", "LstmKernel", "Prepared", "PreparedWeights",
    "TokenKernel", "check_precision", "check_training_precision", "choose_all",
    "choose_gradients", "choose_training_matmul", "describe_library",
    "dispatch_key_of", "encode_characters", "find_library", "force",
    "forced_kernels", "key_of", "multiply_by", "prepare_characters",
]  # fmt: skip
