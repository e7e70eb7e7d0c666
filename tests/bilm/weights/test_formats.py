"""Which format a path is in, and what can be asked without reading weights."""

import json
import shutil

import pytest
import torch

from spacy_elmo import BiLM, models
from spacy_elmo.bilm import weights as files
from spacy_elmo.registry import registry

from ...models import same_layers, tiny_config
from .test_bad_bilm_tf import damage_block

PUBLISHED = "elmo_2x1024_128_2048cnn_1xhighway"


@pytest.fixture
def published(tiny, tmp_path):
    """A folder with one model whose files are named as they are published."""
    folder = tmp_path / "published"
    tiny.save(folder, format="bilm-tf")
    rename(folder, PUBLISHED)
    return folder


def rename(folder, stem):
    for name in ("options.json", "weights.hdf5"):
        (folder / name).rename(folder / f"{stem}_{name}")


def test_published_names(tiny, published):
    assert same_layers(BiLM.load(published), tiny)
    assert files.read_config(published) == tiny.config
    for path in published.iterdir():
        assert same_layers(BiLM.load(path), tiny)


def test_several_published_models_in_a_folder(tiny, published):
    other = BiLM.random(tiny_config(hidden_dim=10), seed=9)
    other.save(published.parent / "other", format="bilm-tf")
    rename(published.parent / "other", PUBLISHED + "_5.5B")
    for path in (published.parent / "other").iterdir():
        shutil.copy(path, published)
    with pytest.raises(ValueError, match=f"EL005.*{PUBLISHED}_5.5B_weights.hdf5"):
        BiLM.load(published)
    for end in ("options.json", "weights.hdf5"):
        assert same_layers(BiLM.load(published / f"{PUBLISHED}_{end}"), tiny)
        assert same_layers(BiLM.load(published / f"{PUBLISHED}_5.5B_{end}"), other)


def test_options_copied_beside_those_published(tiny, published):
    """As the advice was: the options as `options.json` beside the HDF5 file."""
    options = published / f"{PUBLISHED}_options.json"
    shutil.copy(options, published / "options.json")
    assert same_layers(BiLM.load(published), tiny)
    options.unlink()
    assert same_layers(BiLM.load(published / f"{PUBLISHED}_weights.hdf5"), tiny)


def test_not_written_beside_published_files(tiny, published):
    with pytest.raises(ValueError, match="EL005"):
        tiny.save(published, format="bilm-tf")
    with pytest.raises(ValueError, match=r"EL016.*bilm-tf"):
        tiny.save(published)


def test_a_file_of_our_own_format(tiny, tmp_path):
    tiny.save(tmp_path)
    for path in tmp_path.iterdir():
        assert same_layers(BiLM.load(path), tiny)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileNotFoundError, match="EL001"):
        BiLM.load(tmp_path / "notes.txt")


def test_models_in_two_formats_in_a_folder(tiny, tmp_path):
    tiny.save(tmp_path)
    tiny.save(tmp_path / "tf", format="bilm-tf")
    for path in (tmp_path / "tf").iterdir():
        shutil.copy(path, tmp_path)
    with pytest.raises(ValueError, match=r"EL005.*bilm-tf.*spacy-elmo"):
        BiLM.load(tmp_path)
    for name in ("config.json", "weights.hdf5"):
        assert same_layers(BiLM.load(tmp_path / name), tiny)


@pytest.mark.parametrize(
    ("format", "damage", "code"),
    [
        ("spacy-elmo", lambda f: (f / "weights.safetensors").write_bytes(b""), "EL002"),
        ("bilm-tf", damage_block, "EL002"),
    ],
)
def test_sizes_are_read_without_weights(tiny, tmp_path, format, damage, code):
    tiny.save(tmp_path, format=format)
    damage(tmp_path)
    assert files.read_config(tmp_path) == tiny.config
    with pytest.raises(ValueError, match=code):
        files.load(tmp_path)


def test_nothing_found_names_formats_and_shipped_models(tmp_path):
    (tmp_path / "model-best").mkdir()
    expected = r"EL001.*options\.json.*config\.json.*model-best"
    with pytest.raises(FileNotFoundError, match=expected):
        BiLM.load(tmp_path)
    for name in models.MODELS.values():
        with pytest.raises(FileNotFoundError, match=f"EL001.*config.*{name}"):
            models.find("en_elmo")


@pytest.mark.parametrize("format", ["many-langs", "nonsense"])
def test_formats_that_are_not_written(tiny, tmp_path, format):
    with pytest.raises(ValueError, match=r"EL073.*bilm-tf,.* spacy-elmo"):
        tiny.save(tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()


def test_what_bilm_tf_has_no_place_for(tiny, tmp_path):
    with pytest.raises(ValueError, match="EL027"):
        tiny.save(tmp_path, format="bilm-tf", dtype="float16")
    with pytest.raises(ValueError, match=r"EL027.*card"):
        tiny.save(tmp_path, format="bilm-tf", card={})
    assert list(tmp_path.iterdir()) == []


class JsonFormat:
    """A format of another package: everything in one JSON file."""

    name = "json"
    layout = "'bilm.json'"
    dtypes = ("float32",)
    keeps_training = False

    def matches(self, path):
        return (files.folder_of(path) / "bilm.json").exists()

    def read_config(self, path):
        return self.load(path).config

    def load(self, path):
        text = (files.folder_of(path) / "bilm.json").read_text()
        sizes, arrays = json.loads(text)
        config = type(tiny_config()).from_dict(sizes)
        tensors = {name: torch.tensor(values) for name, values in arrays.items()}
        return files.StoredBiLM(config, None, None, tensors)

    def save(self, stored, folder, *, objective=None, card=None):
        folder.mkdir()
        arrays = {name: array.tolist() for name, array in stored.arrays.items()}
        text = json.dumps([stored.config.to_dict(), arrays])
        (folder / "bilm.json").write_text(text)


@pytest.fixture
def json_format():
    registry.formats.register("json", func=JsonFormat)
    yield
    import catalogue

    catalogue.REGISTRY.pop((*registry.formats.namespace, "json"))


def test_format_from_outside(tiny, tmp_path, json_format):
    tiny.save(tmp_path / "out", format="json")
    assert same_layers(BiLM.load(tmp_path / "out"), tiny)
    assert files.read_config(tmp_path / "out") == tiny.config
    with pytest.raises(ValueError, match=r"EL016.*json"):
        tiny.save(tmp_path / "out")
    with pytest.raises(FileNotFoundError, match=r"EL001.*bilm\.json"):
        BiLM.load(tmp_path)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("EL006", lambda arrays: arrays.popitem()),
        ("EL007", lambda arrays: arrays.update({next(iter(arrays)): torch.ones(1)})),
        ("EL008", lambda arrays: next(iter(arrays.values())).fill_(float("nan"))),
        ("EL006", lambda arrays: arrays.update(other=torch.ones(1))),
    ],
)
def test_what_a_format_reads_is_checked(
    tiny, tmp_path, json_format, monkeypatch, code, change
):
    tiny.save(tmp_path / "out", format="json")
    read = JsonFormat.load

    def wrong(self, path):
        stored = read(self, path)
        change(stored.arrays)
        return stored

    monkeypatch.setattr(JsonFormat, "load", wrong)
    with pytest.raises(ValueError, match=code):
        BiLM.load(tmp_path / "out")
