"""Every format holds every vector, as the package that reads it says."""

import json
import sys

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

from spacy_elmo import embed
from spacy_elmo.embed import Reading, run, verify
from spacy_elmo.embed.shard import read_shard
from spacy_elmo.embed.sinks import find_sink
from spacy_elmo.registry import registry

from .corpora import make_plan, save_model, shards, write_jsonl

NPZ = "elmo-extension-npz"
SINKS = ["safetensors", "parquet", "hdf5", NPZ]
RECORDS = [
    *(
        {"text": f"Text {i}. Two sentences, 고양이.", "id": f"id {i}"}
        for i in range(70)
    ),
    {"text": "", "id": "empty"},
    {"tokens": ["", "a token of\nwhite space"]},
]


@pytest.fixture(autouse=True)
def extension():
    if NPZ not in registry.sinks.get_all():
        pytest.fail("run 'make install', or: pip install -e tests/extension_package")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sinks")
    write_jsonl(folder / "a.jsonl", RECORDS)
    save_model(folder / "model")
    return folder


def embedded(folder, output, **options):
    inputs = [str(folder / "a.jsonl")]
    options = {"shard_mb": 0.002, **options}
    make_plan(str(folder / "model"), inputs, output, **options)
    run(output)
    return output


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize(
    "options",
    [
        {"layers": "0,2", "dtype": "float16"},
        {"layers": "all", "dtype": "int8"},
        {"pool": "doc", "dtype": "int8"},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in ({}, {"dtype": "int8"}, {"pool": "sentence"})
        ),
    ],
    ids=lambda options: ",".join(map(str, options.values())) or "default",
)
def test_every_sink_writes_every_row(folder, tmp_path, sink, options):
    output, target = embedded(folder, tmp_path / "a", **options), tmp_path / "b"
    if sink == "hdf5" and (options.get("dtype") == "int8" or "pool" in options):
        with pytest.raises(ValueError, match="EL207"):
            embed.export(output, target, sink)
        return
    assert embed.export(output, target, sink) == len(shards(output)) > 1
    expected = [
        np.asarray(read_shard(path).read_rows(0, 1 << 30))
        for path in sorted((output / "shards").iterdir())
    ]
    found = [READ[sink](path) for path in sorted(target.iterdir())]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one.reshape(other.shape), other)


def rows_of_parquet(path):
    column = pytest.importorskip("pyarrow.parquet").read_table(path)["vector"]
    return column.combine_chunks().flatten().to_numpy(zero_copy_only=False)


def rows_of_hdf5(path):
    with h5py.File(path) as file:
        rows = [file[str(i)][...] for i in range(len(file) - 1)]
    return np.concatenate([r.swapaxes(0, 1) if r.ndim > 2 else r for r in rows])


def rows_of_npz(path):
    with np.load(path) as arrays:
        return arrays["vectors"]


READ = {
    "safetensors": lambda path: load_file(path)["vectors"],
    "parquet": rows_of_parquet,
    "hdf5": rows_of_hdf5,
    NPZ: rows_of_npz,
}


def test_damaged_vectors_are_not_exported(folder, tmp_path):
    """A new checksum would say that they are right."""
    output = embedded(folder, tmp_path / "a")
    path = min((output / "shards").iterdir())
    data, row = bytearray(path.read_bytes()), read_shard(path).vectors(0, 1).tobytes()
    at = data.index(row[:32])
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)
    for to, target in [("safetensors", "b"), ("parquet", "c"), ("hdf5", "d.hdf5")]:
        with pytest.raises(ValueError, match="EL208"):
            embed.export(output, tmp_path / target, to)
        assert not (tmp_path / target).is_file()
        assert not list((tmp_path / target).glob("*"))


def test_hdf5_is_as_allennlp_wrote_it(folder, tmp_path):
    """One file, a dataset for each sentence by its number, and an index of them."""
    reading = Reading(tokenizer="whitespace", split=False)
    for layers, shape in [("all", (3, 5, 32)), ("average", (5, 32))]:
        options = {"layers": layers, "dtype": "float16", "reading": reading}
        output = embedded(folder, tmp_path / layers, **options)
        path = tmp_path / layers / "vectors.hdf5"
        assert embed.export(output, path, "hdf5") == len(shards(output))
        sentences = list(embed.open(output).sentences())
        with h5py.File(path, "r") as file:
            index = json.loads(file["sentence_to_index"][0])
            assert len(file) == len(sentences) + 1 == 72
            assert file["3"].shape == shape and file["3"].dtype == np.float32
            for number, sentence in enumerate(sentences):
                assert index[" ".join(sentence.tokens)] == str(number)
                found = file[str(number)][...]
                found = found.swapaxes(0, 1) if layers == "all" else found
                assert np.array_equal(found, sentence.vectors.astype(np.float32))


def test_parquet_is_read_by_pyarrow(folder, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    output = embedded(folder, tmp_path / "a", dtype="float16")
    target = tmp_path / "parquet"
    assert embed.export(output, target, "parquet") == len(shards(output))
    found = pq.read_table(target).to_pydict()
    corpus = embed.open(output)
    assert len(found["token"]) == corpus.n_tokens
    expected = np.concatenate([document.vectors for document in corpus])
    assert np.array_equal(np.array(found["vector"], dtype=np.float16), expected)
    assert found["token"] == [token for document in corpus for token in document.tokens]
    assert found["document"][:9] == ["id 0"] * 8 + ["id 1"]
    assert set(found) == {
        "document", "position", "sentence", "token", "start", "end", "vector",
    }  # fmt: skip


def test_an_export_replaces_nothing_unless_it_is_forced(folder, tmp_path):
    output = embedded(folder, tmp_path / "a")
    file, target = tmp_path / "a.hdf5", tmp_path / "exported"
    target.mkdir()
    for path in (file, target / "other.hdf5"):
        path.write_text("mine")
    with pytest.raises(ValueError, match="EL130"):
        embed.export(output, file, "hdf5")
    with pytest.raises(ValueError, match=r"EL223.*\.hdf5"):
        embed.export(output, target, "hdf5")
    assert file.read_text() == "mine" and len(list(target.iterdir())) == 1
    assert embed.export(output, file, "hdf5", force=True) == len(shards(output))
    assert embed.export(output, target, "hdf5", force=True) == len(shards(output))
    assert (target / "other.hdf5").read_text() == "mine"


def test_a_forced_export_leaves_nothing_of_another(folder, tmp_path):
    many, few = embedded(folder, tmp_path / "a"), tmp_path / "b"
    embedded(folder, few, shard_mb=1.0)
    assert len(shards(many)) > len(shards(few)) == 1
    for output in (many, few):
        embed.export(output, tmp_path / "exported", "hdf5", force=True)
    names = [path.name for path in (tmp_path / "exported").iterdir()]
    assert names == ["00000000.hdf5"]


def test_paths_may_be_strings(folder, tmp_path):
    output, target = str(tmp_path / "a"), str(tmp_path / "b")
    make_plan(str(folder / "model"), [str(folder / "a.jsonl")], output)
    run(output)
    report = verify(output)
    assert report.problems == [] and embed.repair(output, report) == 0
    assert embed.export(output, target, "hdf5") == 1
    assert embed.export(output, f"{target}.hdf5", "hdf5") == 1


def test_a_suffix_may_have_two_dots(folder, tmp_path):
    @registry.sinks("two-dots")
    class TwoDots:
        suffix, _sink = ".rows.bin", find_sink("hdf5")
        check, write = _sink.check, _sink.write

    output = embedded(folder, tmp_path / "a")
    for force in (False, True):
        embed.export(output, tmp_path / "b", "two-dots", force=force)
    names = sorted(path.name for path in (tmp_path / "b").iterdir())
    assert names == sorted(n.replace("safetensors", "rows.bin") for n in shards(output))


def test_an_export_to_a_full_disk_leaves_what_was_there(folder, tmp_path):
    """HDF5 alone would end the process."""
    resource = pytest.importorskip("resource")
    output, file = embedded(folder, tmp_path / "a"), tmp_path / "a.hdf5"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="EL013"):
            embed.export(output, file, "hdf5")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_export_of_what_can_not_be(folder, tmp_path):
    output = embedded(folder, tmp_path / "a", pool="doc")
    with pytest.raises(ValueError, match="EL207"):
        embed.export(output, tmp_path / "a.hdf5", "hdf5")
    with pytest.raises(ValueError, match="EL207"):
        embed.export(output, tmp_path / "b", "csv")
    min((output / "shards").iterdir()).unlink()
    with pytest.raises(ValueError, match="EL217"):
        embed.export(output, tmp_path / "b", "parquet")
    assert not (tmp_path / "b").exists()


def test_parquet_needs_pyarrow(folder, tmp_path, monkeypatch):
    output = embedded(folder, tmp_path / "a")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"EL211.*spacy-elmo\[arrow\]"):
        embed.export(output, tmp_path / "b", "parquet")
    assert not (tmp_path / "b").exists()
