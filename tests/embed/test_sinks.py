"""Every format holds everything: it is verified, and read as the default one is."""

import base64
import json
import shutil
import zlib

import h5py
import numpy as np
import pytest

from spacy_elmo import embed
from spacy_elmo.embed import Reading, run, verify
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
        {},
        {"layers": "0,2", "dtype": "float16"},
        {"dtype": "int8"},
        {"layers": "all", "dtype": "int8"},
        {"pool": "sentence"},
        {"pool": "doc", "dtype": "int8"},
    ],
    ids=lambda options: ",".join(map(str, options.values())) or "default",
)
def test_round_trip(folder, tmp_path, sink, options):
    if sink == "hdf5" and (options.get("dtype") == "int8" or "pool" in options):
        with pytest.raises(ValueError, match="EL207"):
            embedded(folder, tmp_path / "a", sink=sink, **options)
        return
    expected = embed.open(embedded(folder, tmp_path / "a", **options))
    output = embedded(folder, tmp_path / "b", sink=sink, **options)
    found = embed.open(output)
    assert len(found) == len(expected) == 72
    for one, other in zip(found, expected):
        assert one.id == other.id and np.array_equal(one.vectors, other.vectors)
        if "pool" not in options:
            assert one.tokens == other.tokens
            for a, b in zip(one.offsets, other.offsets):
                assert all(np.array_equal(x, y) for x, y in zip(a, b))
    report = verify(output, full=True)
    assert report.problems == []
    assert report.recomputed == report.counts["rows"] > 0
    again = embedded(folder, tmp_path / "c", sink=sink, **options)
    assert shards(again) == shards(output) and len(shards(output)) > 1


@pytest.mark.parametrize("sink", ["parquet", "hdf5"])
def test_damage_is_found(folder, tmp_path, sink):
    output = embedded(folder, tmp_path / "a", sink=sink)
    path = min((output / "shards").iterdir())
    good = path.read_bytes()
    problems = []
    for at in range(40, len(good), len(good) // 12):
        data = bytearray(good)
        data[at] ^= 255
        path.write_bytes(data)
        problems.append(len(verify(output, sample=0).problems))
    # What a byte of these formats means nothing, or is not read, can't be found.
    assert sum(problems) > 7 and set(problems) <= {0, 1}
    path.write_bytes(good[:-7])
    assert "EL208" in verify(output).problems[0].problem
    path.write_bytes(b"")
    assert "EL208" in verify(output).problems[0].problem


@pytest.mark.parametrize("sink", ["safetensors", "parquet", "hdf5"])
def test_damaged_vectors_are_not_exported(folder, tmp_path, sink):
    """A new checksum would say that they are right."""
    output = embedded(folder, tmp_path / "a", sink=sink)
    path = min((output / "shards").iterdir())
    if sink == "hdf5":
        with h5py.File(path, "r+") as file:
            del file["3"]
    else:
        stored = find_sink(sink).read(path)
        data, row = bytearray(path.read_bytes()), stored.vectors(0, 1).tobytes()
        at = data.index(row[:32]) if sink == "safetensors" else len(data) // 3
        data[at : at + 20] = bytes(20)
        path.write_bytes(data)
    for to, target in [("safetensors", "b"), ("parquet", "c"), ("hdf5", "d.hdf5")]:
        with pytest.raises(ValueError, match="EL208"):
            embed.export(output, tmp_path / target, to)
        assert not (tmp_path / target).is_file()
        assert not list((tmp_path / target).glob("*"))
    if sink == "hdf5":
        with pytest.raises(ValueError, match=r"EL208.*hdf5"):
            [document.vectors for document in embed.open(output)]


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
        check, write, read = _sink.check, _sink.write, _sink.read

    output = embedded(folder, tmp_path / "a", sink="two-dots")
    assert verify(output).problems == [] and len(embed.open(output)) == len(RECORDS)
    embed.export(output, tmp_path / "b", "hdf5")
    names = sorted(path.name for path in (tmp_path / "b").iterdir())
    assert names == sorted(name.replace("rows.bin", "hdf5") for name in shards(output))


def test_parquet_takes_the_room_that_is_planned(folder, tmp_path):
    """Its footer too, which readers refuse when it is large."""
    text = tmp_path / "many.jsonl"
    url = "https://news.example.org/2026/a-long-title-of-an-article"
    write_jsonl(text, [{"text": "Yes.", "id": f"{url}-{i:08d}"} for i in range(3000)])
    sizes = {}
    for sink in ("safetensors", "parquet"):
        output, options = tmp_path / sink, {"sink": sink, "pool": "doc"}
        make_plan(str(folder / "model"), [str(text)], output, **options)
        run(output)
        (path,) = (output / "shards").iterdir()
        sizes[sink] = path.stat().st_size
    assert sizes["parquet"] < sizes["safetensors"]
    assert embed.open(output)[7].id.endswith("-00000007")


def test_parquet_refuses_what_readers_would_refuse(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_elmo.embed.sinks.parquet.MAX_FOOTER", 2000)
    with pytest.raises(ValueError, match=r"EL207.*shard_mb.*a smaller one"):
        embedded(folder, tmp_path / "a", sink="parquet", shard_mb=1.0)
    assert shards(tmp_path / "a") == {}


@pytest.mark.parametrize("change", ["list", "longer", "shorter"])
def test_footers_of_parquet(folder, tmp_path, change):
    """Lists of numbers are as earlier versions wrote them."""
    pq = pytest.importorskip("pyarrow.parquet")
    output = embedded(folder, tmp_path / "a", sink="parquet", shard_mb=1.0)
    (path,) = (output / "shards").iterdir()
    expected, table = find_sink("parquet").read(path), pq.read_table(path)
    footer = json.loads(table.schema.metadata[b"spacy_elmo"])
    for name in footer.keys() - {"header"}:
        data = expected.arrays[name].tobytes()
        data = data[:-8] if change == "shorter" else data + bytes(1 << 20)
        packed = base64.b64encode(zlib.compress(data)).decode()
        footer[name] = expected.arrays[name].tolist() if change == "list" else packed
    metadata = {"spacy_elmo": json.dumps(footer)}
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=8192)
    if change != "list":
        with pytest.raises(ValueError, match="EL208"):
            find_sink("parquet").read(path)
        return
    for name, array in find_sink("parquet").read(path).arrays.items():
        assert np.array_equal(array, expected.arrays[name])


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
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"EL211.*spacy-elmo\[arrow\]"):
        embedded(folder, tmp_path / "a", sink="parquet")
    with pytest.raises(ImportError, match="EL211"):
        find_sink("parquet").check("float32", "token")
    shutil.rmtree(tmp_path / "a", ignore_errors=True)
    embedded(folder, tmp_path / "a")
