"""The biLM in pure PyTorch, without spaCy. Start reading at model.py.

The rooms kernels, objectives and weights have doors of their own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config import MAX_NUMBER as MAX_NUMBER
from .config import PUBLISHED as PUBLISHED
from .config import BiLMConfig as BiLMConfig
from .config import check_at_least as check_at_least
from .words import BOS as BOS
from .words import EOS as EOS
from .words import PADDING as PADDING
from .words import UNK as UNK
from .words import UnicodeForm as UnicodeForm
from .words import encode_words as encode_words
from .words import form_of as form_of
from .words import in_form as in_form
from .words import trim as trim
from .words import word_to_bytes as word_to_bytes

if TYPE_CHECKING:
    from .arrays import read_header as read_header
    from .arrays import read_with_checksum as read_with_checksum
    from .arrays import write_with_checksum as write_with_checksum
    from .bilm import BiLM as BiLM
    from .encode import PackedBatch as PackedBatch
    from .encode import check_finite as check_finite
    from .encode import compute_what_fits as compute_what_fits
    from .encode import in_batches as in_batches
    from .encode import pack as pack
    from .lstm import BiLMState as BiLMState
    from .lstm import LstmState as LstmState
    from .model import BidirectionalLM as BidirectionalLM
    from .token_cache import CACHE_WORDS as CACHE_WORDS
    from .token_cache import TokenCache as TokenCache

# Imported at first use: words can be read without torch.
LAZY = {
    "read_header": "arrays",
    "read_with_checksum": "arrays",
    "write_with_checksum": "arrays",
    "BiLM": "bilm",
    "PackedBatch": "encode",
    "check_finite": "encode",
    "compute_what_fits": "encode",
    "in_batches": "encode",
    "pack": "encode",
    "BiLMState": "lstm",
    "LstmState": "lstm",
    "BidirectionalLM": "model",
    "CACHE_WORDS": "token_cache",
    "TokenCache": "token_cache",
}


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(f".{LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
