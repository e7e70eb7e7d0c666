"""What `spacy elmo embed` is asked for on the command line is what the plan says."""

import pytest
import spacy

from spacy_elmo import embed
from spacy_elmo.embed.plan import read_plan

from ..embed.corpora import embed_files, save_model, shards, write_jsonl, write_lines
from ..embed.test_verify import edit, other_vector
from ..pipelines import examples, pipeline
from .test_cli import run


def test_every_option_of_a_plan(tmp_path):
    """Each has a value that is neither its default nor that of another."""
    model = pipeline()
    model.initialize(lambda: examples(model))
    model.to_disk(tmp_path / "model")
    spacy.blank("xx").to_disk(tmp_path / "tokens")
    # Neither its name nor the names of its fields tell what is in it.
    record = {"body": "We saw Kim.", "name": "first", "words": ["We", "saw", "Kim"]}
    text = write_jsonl(tmp_path / "a.data", [record] * 9)
    options = {
        "--lang": "de",
        "--tokenizer": "whitespace",
        "--pipeline": tmp_path / "tokens",
        "--kind": "jsonl",
        "--text-field": "body",
        "--id-field": "name",
        "--tokens-field": "words",
        "--window": 17,
        "--layers": "0,2",
        "--mix-of": "tagger",
        "--save-precision": "float16",
        "--pool": "sentence",
        "--shard-mb": 3,
        "--limit-mb": 2,
        "--threads": 4,
        "--batch-tokens": 99,
    }
    given = [part for option in options.items() for part in option]
    given += ["--no-sentences", "-o", tmp_path / "out"]
    run("embed", "plan", tmp_path / "model", text, *given)
    plan = read_plan(tmp_path / "out").fixed()
    del plan["reading"]["pipeline_hash"]
    assert plan["reading"] == {
        "lang": "de",
        "tokenizer": "whitespace",
        "split": False,
        "pipeline": str(tmp_path.resolve() / "tokens"),
        "text_field": "body",
        "id_field": "name",
        "tokens_field": "words",
        "window": 17,
    }
    kept, computing = plan["kept"], plan["computing"]
    assert (kept["weights"], kept["layers"]) == (None, [0, 2])
    assert (kept["dtype"], kept["pool"]) == ("float16", "sentence")
    assert plan["mix_of"] == "tagger"
    assert [one["kind"] for one in plan["inputs"]] == ["jsonl"]
    assert plan["shard_bytes"] == 3 << 20
    assert plan["limit"] == 2 << 20
    assert (computing["threads"], computing["batch_tokens"]) == (4, 99)
    assert (computing["precision"], computing["device"]) == ("float32", "cpu")


def test_a_precision(tmp_path):
    """One that there is not: which there are depends on the processor."""
    model, text = save_model(tmp_path / "model"), write_lines(tmp_path / "a.txt", 5)
    asked = ["embed", "plan", model, text, "-o", tmp_path / "out", "--precision"]
    said = run(*asked, "quarter", fails=True)
    assert "EL073" in said and "quarter" in said


@pytest.mark.parametrize("share", ["x", "0/3", "4/3"])
def test_a_share_that_is_none_is_named_as_its_option(tmp_path, share):
    model, text = save_model(tmp_path / "model"), write_lines(tmp_path / "a.txt", 5)
    asked = ["embed", "run", model, text, "-o", tmp_path / "out", "--share", share]
    assert f"share = '{share}'" in run(*asked, fails=True)


def test_export(tmp_path):
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt", 9)])
    target, file = tmp_path / "exported", tmp_path / "vectors.hdf5"
    suffixes = set()
    for options in ([], ["--format", "hdf5"]):
        said = run("embed", "export", output, target, *options)
        assert f"Wrote {len(shards(output))} shards" in " ".join(said.split())
        suffixes.add(frozenset(path.suffix for path in target.iterdir()))
    assert suffixes == {frozenset([".parquet"]), frozenset([".parquet", ".hdf5"])}
    file.write_text("mine")
    joined = ["embed", "export", output, file, "--format", "hdf5"]
    assert "EL130" in run(*joined, fails=True) and file.read_text() == "mine"
    run(*joined, "--force")
    assert file.read_bytes()[:4] == b"\x89HDF"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """More sentences than are recomputed at least."""
    folder = tmp_path_factory.mktemp("large")
    return embed_files(folder, [write_lines(folder / "a.txt", 150)])


def test_how_much_is_verified(large):
    found = {}
    for sample, seed in (0.001, 0), (0.8, 0), (0.8, 3):
        said = run("embed", "verify", large, "--sample", sample, "--seed", seed)
        found[sample, seed] = embed.verify(large, sample=sample, seed=seed).recomputed
        assert f"; {found[sample, seed]:,} recomputed" in " ".join(said.split())
    assert len(set(found.values())) == 3


def test_what_is_not_in_the_sample_is_not_repaired(large):
    name = sorted(shards(large))[1]
    for options in (["--sample", 0.9], ["--seed", 3]):
        edit(large / "shards" / name, other_vector)
        assert "Removed 0 shards" in run("embed", "repair", large)
        assert "Removed 1 shards" in run("embed", "repair", large, *options)


@pytest.mark.parametrize("asked", ["info M --format json", "prepare T --dimensions 8"])
def test_what_only_embed_had_is_an_unknown_option_of_others(asked):
    said = run(*asked.split(), fails=True)
    assert "No such option" in " ".join(said.split()) and "EL240" not in said
