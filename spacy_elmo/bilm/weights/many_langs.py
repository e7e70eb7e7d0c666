"""ELMoForManyLangs: `config.json`, the JSON that it names, `char.dic`, `word.dic`,
`encoder.pkl` and `token_embedder.pkl`. Read only.

These models read code points in an alphabet, and have a word embedding beside the
char-CNN. The gate of their highway layers keeps x, and ours opens the transform. Since
sigmoid(-z) is 1 - sigmoid(z), its weights are negated. Their gates are ordered i, f, g,
o, and ours o, i, f, g. Names of ELMoForManyLangs stay in this file.
"""

import json
import zipfile
from pathlib import Path, PureWindowsPath
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import ElmoError, Errors
from ...files import reading
from ...registry import registry
from ..arrays import FLOATS, check_shapes, shapes_of
from ..config import BiLMConfig
from ..words import BOS, EOS, UNK
from .format import folder_of
from .stored import StoredBiLM, count_numbered, empty_arrays, renamed
from .text_files import read_json, read_lines, settings_of

CONFIG, ENCODER, EMBEDDER = "config.json", "encoder.pkl", "token_embedder.pkl"
WORDS, CHARACTERS = "word.dic", "char.dic"
FILES = (CONFIG, CHARACTERS, WORDS, ENCODER, EMBEDDER)
# The published models name one of these files, which no zip has. The settings in it are
# the same for all languages (issue 26 of ELMoForManyLangs, and `configs` in its
# package).
PUBLISHED_SIZES = (
    "cnn_50_100_512_4096_sample.json",
    "cnn_0_100_512_4096_sample.json",
)
# Most bytes of a pickle beside its numbers.
MAX_OVERHEAD = 16 << 20
_WORD_TABLE = "word_emb_layer.embedding.weight"
_CHAR_TABLE = "char_emb_layer.embedding.weight"
_FILTER, _HIGHWAY = "convolutions.{}.weight", "highways._layers.{}.weight"
_WORD_PROJECTION = "projection.weight"
_PROJECTION = "forward_layer_{}.state_projection.weight"
# Patterns in the names of our parameters, and what replaces each, one after another.
_NAMES = {
    r"token_encoder\.char_embedding": _CHAR_TABLE,
    r"token_encoder\.word_embedding": _WORD_TABLE,
    r"token_encoder\.conv_weights\.(\d+)": r"convolutions.\1.weight",
    r"token_encoder\.conv_biases\.(\d+)": r"convolutions.\1.bias",
    r"token_encoder\.highways\.(\d+)\.\w+_": r"highways._layers.\1.",
    r"token_encoder\.projection_": "projection.",
    r"(\w+)_lstm\.layers\.(\d+)\.": r"\1_layer_\2.",
    "weight_x$": "input_linearity.weight",
    "weight_h$": "state_linearity.weight",
    "weight_p$": "state_projection.weight",
    r"(layer_\d+)\.bias$": r"\1.state_linearity.bias",
}
_SPECIAL_WORDS = {"<bos>": BOS, "<eos>": EOS, "<oov>": UNK}
# A word of the text with the spelling of our special word gets another name.
_SPECIAL_WORDS |= {ours: theirs for theirs, ours in _SPECIAL_WORDS.items()}
# ELMoForManyLangs swaps these two marks when it looks them up, in training too.
_SWAPPED = {"<bow>": "<eow>", "<eow>": "<bow>"}
Arrays = dict[str, Tensor]


@registry.formats("many-langs")
class ManyLangsFormat:
    """The format of ELMoForManyLangs (a `Format`)."""

    name = "many-langs"
    layout = f"the files of ELMoForManyLangs, {', '.join(map(repr, FILES))}"

    def matches(self, path: Path) -> bool:
        """Return whether the files are there. A model may read words or characters
        alone, and lack the other file."""
        if path.is_file() and path.name not in FILES:
            return False
        folder = folder_of(path)
        return all(
            (folder / name).exists() for name in (CONFIG, ENCODER, EMBEDDER)
        ) and ((folder / WORDS).exists() or (folder / CHARACTERS).exists())

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes."""
        return _read_texts(folder_of(path))[0]

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        folder = folder_of(path)
        config, vocab, alphabet, word_dim = _read_texts(folder)
        n_numbers = sum(array.numel() for array in empty_arrays(config).values())
        n_numbers += word_dim * (config.n_words + config.projection_dim)
        most = 4 * n_numbers + MAX_OVERHEAD
        theirs = _read_arrays(folder / ENCODER, most)
        theirs |= _read_arrays(folder / EMBEDDER, most)
        try:
            if not config.has_characters:
                words = _project_words(folder / EMBEDDER, theirs, config, word_dim)
                theirs["token_encoder.embedding"] = words
            arrays = {
                name: _to_ours(name, theirs[renamed(name, _NAMES)])
                for name in empty_arrays(config)
            }
        except ElmoError:
            raise
        except KeyError as error:
            raise Errors.EL006(path=folder, problem=f"has no array {error}") from error
        except (RuntimeError, ValueError) as error:  # shapes that don't fit
            raise Errors.EL002(path=folder, format=self.name, error=error) from error
        return StoredBiLM(config, vocab, alphabet, arrays)


def _read_texts(
    folder: Path,
) -> tuple[BiLMConfig, list[str] | None, list[str] | None, int]:
    """Return sizes, words, characters, and the width of the word embedding. Weights are
    read only if the JSON of the sizes is missing."""
    path, sizes = _read_sizes(folder)
    with settings_of(path):
        lstm, tokens = sizes["encoder"], sizes["token_embedder"]
        settings: dict[str, Any] = {
            "hidden_dim": lstm["dim"],
            "projection_dim": lstm["projection_dim"],
            "n_layers": lstm["n_layers"],
            "cell_clip": lstm.get("cell_clip"),
            "proj_clip": lstm.get("proj_clip"),
            "forget_bias": 0.0,  # the stored bias includes it
        }
        word_dim, char_dim = tokens["word_dim"], tokens["char_dim"]
        if type(word_dim) is not int:  # of words alone, no other setting depends on it
            raise TypeError(f"word_dim is {word_dim!r}")
        if char_dim:
            settings |= {
                "word_dim": word_dim,
                "characters": "alphabet",
                "char_dim": char_dim,
                "filters": tokens["filters"],
                "activation": tokens.get("activation", "relu"),
                "n_highway": tokens["n_highway"],
                "max_characters": tokens["max_characters_per_token"],
            }
    vocab = alphabet = None
    for file, kind, dim in (WORDS, "word", word_dim), (CHARACTERS, "char", char_dim):
        if dim and not (folder / file).exists():
            raise Errors.EL166(path=folder / file, kind=kind, dim=dim, sizes=path)
    if word_dim:
        vocab = [_SPECIAL_WORDS.get(w, w) for w in _read_dic(folder / WORDS)]
        settings["n_words"] = len(vocab)
    if char_dim:
        alphabet = [_SWAPPED.get(c, c) for c in _read_dic(folder / CHARACTERS)]
        settings["n_characters"] = len(alphabet) + 1
    return BiLMConfig.from_dict(settings), vocab, alphabet, word_dim


def _read_sizes(folder: Path) -> tuple[Path, Any]:
    """Return the path and the content of the JSON with the sizes.

    Raises:
        ValueError: [EL002] A file can't be read. [EL165] The JSON is missing, and it is
            not one of PUBLISHED_SIZES, so the arrays don't tell everything.
    """
    path = folder / CONFIG
    with settings_of(path):
        # The path is from the machine of the training, perhaps of another system.
        name = PureWindowsPath(read_json(path)["config_path"]).name
    with reading(path, Errors.EL002, format="a configuration"):  # a name of any length
        folders = [folder, folder / "configs", *sorted(folder.iterdir())]
        places = [each / name for each in folders if each.is_dir()]
        found = next((place for place in places if place.is_file()), None)
    if found is not None:
        return found, read_json(found)
    sizes = _sizes_of_arrays(folder)
    if name not in PUBLISHED_SIZES:
        raise Errors.EL165(path=folder, name=name, content=json.dumps(sizes))
    return path, sizes


def _sizes_of_arrays(folder: Path) -> dict[str, Any]:
    """Return the sizes of arrays in the form of the JSON. Arrays don't tell clips,
    activation and length of words: these are the values of all published models."""
    path = folder / EMBEDDER
    tokens, lstm = _read_arrays(path), _read_arrays(folder / ENCODER)
    try:
        none = torch.empty(0, 0)
        word, char = (tokens.get(table, none) for table in (_WORD_TABLE, _CHAR_TABLE))
        n_filters = count_numbered(tokens, _FILTER)
        filters = [tokens[_FILTER.format(i)] for i in range(n_filters)]
        H, C = lstm[_PROJECTION.format(0)].shape
        return {
            "encoder": {
                "name": "elmo", "projection_dim": H, "cell_clip": 3, "proj_clip": 3,
                "dim": C, "n_layers": count_numbered(lstm, _PROJECTION),
            },
            "token_embedder": {
                "name": "cnn", "activation": "relu",
                "filters": [[each.shape[2], each.shape[0]] for each in filters],
                "n_highway": count_numbered(tokens, _HIGHWAY),
                "word_dim": word.shape[1], "char_dim": char.shape[1],
                "max_characters_per_token": 50,
            },
        }  # fmt: skip
    except (KeyError, IndexError, ValueError) as error:
        problem = f"lacks arrays of a biLM ({error})"
        raise Errors.EL006(path=path, problem=problem) from error


# -- arrays -----------------------------------------------------------------------


def _project_words(
    path: Path, theirs: Arrays, config: BiLMConfig, word_dim: int
) -> Tensor:
    """Return the projection of each word of a model without characters. The shapes of
    the arrays are compared first: the product of small arrays of other shapes could be
    larger than all memory. Raises as `check_shapes`."""
    expected = {
        _WORD_TABLE: (config.n_words, word_dim),
        _WORD_PROJECTION: (config.projection_dim, word_dim),
    }
    found = {name: theirs[name] for name in expected if name in theirs}
    check_shapes(path, shapes_of(found), expected)
    words, weight = (theirs[name].double() for name in expected)
    return (words @ weight.t() + theirs["projection.bias"]).float()


def _to_ours(ours: str, array: Tensor) -> Tensor:
    """Return the parameter of a name, from the array that holds it."""
    if ours.endswith("char_embedding"):
        return F.pad(array, (0, 0, 1, 0))
    if ".highways." in ours:
        transform, keep = array.chunk(2)
        return transform.t() if ".transform_" in ours else -keep.t()
    if "_lstm" in ours and not ours.endswith("weight_p"):
        *others, o = array.chunk(4)
        return torch.cat([o, *others]).t()
    return array.t() if ours.endswith(("projection_weight", "weight_p")) else array


def _read_arrays(path: Path, max_bytes: int | None = None) -> Arrays:
    """Return the arrays of a pickle. No code in it is run."""
    with reading(path, Errors.EL002, max_bytes=max_bytes, format="arrays of PyTorch"):
        _check_zip(path)
        arrays = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(arrays, dict):
            raise ValueError(f"it holds a {type(arrays).__name__}, not arrays by name")
        for name, array in arrays.items():
            if not _is_plain(array):
                problem = "not an array of floating-point numbers"
                raise Errors.EL009(path=path, name=name, problem=problem)
        starts = [a.untyped_storage().data_ptr() for a in arrays.values() if a.nbytes]
        if len(set(starts)) < len(starts):  # each would take memory of its own
            raise ValueError("its arrays share their numbers")
    return arrays


def _check_zip(path: Path) -> None:
    """Raise ValueError if the entries of a zip file are larger than the file, whose
    size is bounded. Before version 1.6 PyTorch did not write zip files."""
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            return
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise ValueError("its arrays are compressed or overlap")


def _is_plain(array: object) -> bool:
    """Return whether an array is floating-point numbers on the CPU, with memory for
    each of them."""
    return (
        isinstance(array, Tensor)
        and array.layout == torch.strided
        and array.device.type == "cpu"
        and array.dtype in FLOATS
        and array.nbytes <= array.untyped_storage().nbytes()
    )


def _read_dic(path: Path) -> list[str]:
    """Read a file of lines "entry, tab, number". Return its entries by number."""
    numbered = [line.rsplit("\t", 1) for line in read_lines(path) if "\t" in line]
    with reading(path, Errors.EL002, format="numbered lines"):
        entries = {int(number): entry for entry, number in numbered}
    if sorted(entries) != list(range(len(entries))):
        problem = "its entries are not numbered 0, 1, 2 ..."
        raise Errors.EL003(path=path, problem=problem)
    return [entries[i] for i in range(len(entries))]
