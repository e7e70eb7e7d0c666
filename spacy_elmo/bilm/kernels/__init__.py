"""Kernels compute the functions of the biLM faster than the definition.

One file holds one kernel. kernel.py has their protocol and says how to add one, plan.py
chooses among them, and fast_bilm.py runs them. docs/kernels.md says where the figures
in these files come from.
"""

from .fast_bilm import FastBiLM, Prepared, PreparedWeights, key_of
from .kernel import (
    DispatchKey,
    describe_library,
    dispatch_key_of,
    find_library,
    force,
    forced_kernels,
    is_traced,
)
from .matmul import multiply_by
from .plan import (
    check_precision,
    check_training_precision,
    choices,
    choose_gradients,
    choose_training_matmul,
)

__all__ = [
    "DispatchKey", "FastBiLM", "Prepared", "PreparedWeights", "check_precision",
    "check_training_precision", "choices", "choose_gradients",
    "choose_training_matmul", "describe_library", "dispatch_key_of", "find_library",
    "force", "forced_kernels", "is_traced", "key_of", "multiply_by",
]  # fmt: skip
