"""Our own model folder: `config.json`, `weights.safetensors`, `vocab.txt` if known.

safetensors holds plain arrays and no code, says their shapes before any is read, and
is read by every framework. Sizes are compared with the configuration first, so memory
is only ever taken for arrays that fit.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from ...atomic_files import write_files, write_text
from ...errors import Errors
from .. import objectives
from ..bilm import VOCAB_CACHE, BiLM
from ..config import BiLMConfig
from ..objectives.storage import write_safetensors
from ..words import MARKS

CONFIG, WEIGHTS, VOCAB = "config.json", "weights.safetensors", "vocab.txt"
ALPHABET, CARD = "alphabet.json", "card.json"
FOREIGN_FORMATS = ("options.json", "encoder.pkl")  # what tells them, see formats/
FORMAT_VERSION = 1
DTYPES = {"float32": torch.float32, "float16": torch.float16}
_SAFETENSORS_FLOATS = ("F64", "F32", "F16", "BF16")


def fingerprint(bilm: BiLM) -> str:
    """SHA-256 over the float32 bytes of every array, by name, and whatever else the
    vectors depend on: two models with one fingerprint give the same vectors."""
    return _fingerprint(bilm, bilm.state_dict())


def save(
    bilm: BiLM,
    folder: Path,
    *,
    dtype: str = "float32",
    softmax: objectives.Objective | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """softmax, card: written beside the biLM if given, the card with the fingerprint.
    Whatever else of a model in our format was in the folder is removed.
    RETURNS: the fingerprint of what was written.

    Raises ValueError [EL016, EL019, EL028], OSError [EL013]."""
    check_format(folder, FOREIGN_FORMATS)
    if dtype not in DTYPES:
        raise ValueError(Errors.EL028.format(found=dtype, known=", ".join(DTYPES)))
    arrays = {
        name: tensor.detach().cpu().to(DTYPES[dtype]).contiguous()
        for name, tensor in bilm.state_dict().items()
    }
    for name, array in arrays.items():
        if not torch.isfinite(array).all():
            raise ValueError(Errors.EL019.format(name=name, dtype=dtype))
    header = {
        "format": FORMAT_VERSION,
        "fingerprint": _fingerprint(bilm, arrays),
        "bilm": bilm.config.to_dict(),
    }
    writers: dict[str, Callable[[Path], None]] = {
        WEIGHTS: lambda path: write_safetensors(path, arrays)
    }
    if softmax is not None:
        writers[objectives.FILE] = lambda path: objectives.save(
            softmax, path, DTYPES[dtype]
        )
    if bilm.vocab is not None:
        writers[VOCAB] = partial(write_text, vocab_text(bilm.vocab))
    if bilm.alphabet is not None:
        alphabet = json.dumps(bilm.alphabet, ensure_ascii=False)
        writers[ALPHABET] = partial(write_text, alphabet)
    if card is not None:
        signed = {**card, "fingerprint": header["fingerprint"]}
        text = json.dumps(signed, indent=2, ensure_ascii=False)
        writers[CARD] = partial(write_text, text)
    writers[CONFIG] = partial(write_text, json.dumps(header, indent=2))
    others = [objectives.FILE, VOCAB, ALPHABET, CARD, VOCAB_CACHE]
    write_files(folder, writers, remove=others)
    return str(header["fingerprint"])


def load(folder: Path) -> BiLM:
    """Raises FileNotFoundError [EL001], ValueError [EL002-EL012, EL014,
    EL020-EL023]."""
    header = read_json(folder / CONFIG)
    if not isinstance(header, dict) or not isinstance(header.get("bilm"), dict):
        problem = "it has no 'bilm' section"
        raise ValueError(Errors.EL003.format(path=folder / CONFIG, problem=problem))
    version = header.get("format")
    if type(version) is not int or version < FORMAT_VERSION:
        problem = f"its format is {version!r}"
        raise ValueError(Errors.EL003.format(path=folder / CONFIG, problem=problem))
    if version > FORMAT_VERSION:
        raise ValueError(
            Errors.EL014.format(
                path=folder / CONFIG, found=version, known=FORMAT_VERSION
            )
        )
    config = BiLMConfig.from_dict(header["bilm"])
    vocab = read_vocab(folder / VOCAB) if (folder / VOCAB).exists() else None
    if config.n_words:
        check_vocab(folder / VOCAB, vocab, config.n_words)
    alphabet = None
    if config.characters == "alphabet":
        alphabet = read_json(folder / ALPHABET)
        check_alphabet(folder / ALPHABET, alphabet, config.n_characters)
    bilm = empty_bilm(config, vocab, alphabet)
    path = folder / WEIGHTS
    check_shapes(path, _safetensors_shapes(path), bilm)
    arrays = load_file(path)
    found = _fingerprint(bilm, arrays)
    expected = header.get("fingerprint")
    if expected is not None and found != expected:
        raise ValueError(
            Errors.EL012.format(
                path=path, config=folder / CONFIG, found=found, expected=expected
            )
        )
    # Copies: what safetensors gives is the file itself, mapped into memory.
    copies = {
        name: array.to(torch.float32, copy=True) for name, array in arrays.items()
    }
    return fill(bilm, copies, path)


# -- shared with the foreign formats ----------------------------------------------


def empty_bilm(
    config: BiLMConfig,
    vocab: list[str] | None = None,
    alphabet: list[str] | None = None,
) -> BiLM:
    """A biLM whose parameters have shapes but no memory."""
    with torch.device("meta"):
        return BiLM(config, vocab, alphabet)


def check_shapes(
    path: Path | str, found: Mapping[str, tuple[int, ...]], bilm: BiLM
) -> None:
    """Compare shapes with a model's. Raises ValueError [EL006, EL007, EL011]."""
    expected = {name: tuple(tensor.shape) for name, tensor in bilm.state_dict().items()}
    for name, shape in expected.items():
        if name not in found:
            raise ValueError(Errors.EL006.format(path=path, name=name))
        if found[name] != shape:
            raise ValueError(
                Errors.EL007.format(
                    path=path, name=name, found=found[name], expected=shape
                )
            )
    unknown = sorted(set(found) - set(expected))
    if unknown:
        raise ValueError(Errors.EL011.format(path=path, names=", ".join(unknown[:5])))


def fill(bilm: BiLM, arrays: Mapping[str, Tensor], path: Path | str) -> BiLM:
    """Put arrays into an empty biLM. Raises ValueError [EL008] on NaN or infinity."""
    for name, array in arrays.items():
        if not torch.isfinite(array).all():
            raise ValueError(Errors.EL008.format(name=name, path=path))
    bilm.load_state_dict(dict(arrays), strict=True, assign=True)
    return bilm.requires_grad_(True)


def read_json(path: Path) -> Any:
    """Raises ValueError [EL002], FileNotFoundError [EL001]."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileNotFoundError(Errors.EL001.format(path=path.parent)) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(Errors.EL002.format(path=path, error=error)) from error


def check_format(folder: Path, others: Iterable[str]) -> None:
    """Raises ValueError [EL016] if a folder holds a model of another format."""
    for name in others:
        if (folder / name).exists():
            raise ValueError(Errors.EL016.format(path=folder, name=name))


def vocab_text(words: list[str]) -> str:
    return "".join(f"{word}\n" for word in words)


def read_vocab(path: Path) -> list[str]:
    """One word a line, UTF-8. Raises ValueError [EL003]."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(Errors.EL003.format(path=path, problem=error)) from error
    words = text.removesuffix("\n").split("\n")
    if all(word.endswith("\r") for word in words):  # lines as Windows ends them
        words = [word.removesuffix("\r") for word in words]
    return words


def check_vocab(path: Path, vocab: list[str] | None, n_words: int) -> None:
    """Raises ValueError [EL022, EL023]."""
    if vocab is None:
        raise ValueError(Errors.EL022.format(path=path.parent))
    if len(vocab) != n_words:
        raise ValueError(
            Errors.EL023.format(path=path, found=len(vocab), expected=n_words)
        )


def check_alphabet(path: Path, alphabet: Any, n_characters: int) -> None:
    """Raises ValueError [EL003] unless it is a list of the right number of strings
    that has every mark."""
    problem = None
    if not isinstance(alphabet, list) or not all(isinstance(c, str) for c in alphabet):
        problem = "it is not a list of characters"
    elif len(alphabet) + 1 != n_characters:
        problem = f"it has {len(alphabet)} characters for {n_characters - 1} rows"
    elif missing := [mark for mark in MARKS if mark not in alphabet]:
        problem = f"it has no {', '.join(missing)}"
    if problem:
        raise ValueError(Errors.EL003.format(path=path, problem=problem))


def _fingerprint(bilm: BiLM, arrays: Mapping[str, Tensor]) -> str:
    # Settings at their defaults are left out, so that new ones change no fingerprint.
    defaults = BiLMConfig().to_dict()
    sizes = bilm.config.to_dict()
    parts: dict[str, Any] = {k: v for k, v in sizes.items() if v != defaults[k]}
    if bilm.config.n_words:
        parts["vocab"] = bilm.vocab
    if bilm.alphabet is not None:
        parts["alphabet"] = bilm.alphabet
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(arrays[name].detach().cpu().float().contiguous().numpy().data)
    return digest.hexdigest()


def _safetensors_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Raises ValueError [EL009, EL010], FileNotFoundError [EL001]."""
    if not path.exists():
        raise FileNotFoundError(Errors.EL001.format(path=path.parent))
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in list(file.keys())}
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            dtypes = {name: part.get_dtype() for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(Errors.EL010.format(path=path, error=error)) from error
    for name, dtype in dtypes.items():
        if dtype not in _SAFETENSORS_FLOATS:
            problem = f"of type {dtype}"
            raise ValueError(Errors.EL009.format(name=name, path=path, problem=problem))
    return shapes
