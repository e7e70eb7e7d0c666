"""The plan fixes everything, is made once, and refuses what can't be."""

import io
import json
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import spacy
import torch

from spacy_elmo import embed
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.embed import plan as plans
from spacy_elmo.embed import planning, run
from spacy_elmo.embed.model import Computing, Encoder, Kept
from spacy_elmo.embed.plan import ESTIMATED, Plan, read_plan
from spacy_elmo.text import Reading, TextFile

from .corpora import (
    SMALL,
    embed_files,
    make_plan,
    save_model,
    shards,
    write_jsonl,
    write_lines,
)


def big_plan(n_files, size):
    return Plan(
        model="en_elmo_sm",
        mix_of=None,
        fingerprint="0" * 64,
        inputs=tuple(
            TextFile(f"/text/{i:06d}.txt", "text", "", size, i) for i in range(n_files)
        ),
        reading=Reading(),
        kept=Kept((1.0,), (0,), 512),
        computing=Computing(),
        sink="safetensors",
        shard_bytes=4 << 20,
        limit=None,
        versions={},
        estimate=dict.fromkeys(ESTIMATED, 0),
    )


def test_a_plan_reads_no_contents(tmp_path):
    """A terabyte in a hundred thousand files is planned, saved and read in seconds."""
    started = time.monotonic()
    plan = big_plan(100_000, 10_000_000)
    plan.save(tmp_path)
    found = read_plan(tmp_path)
    assert found == plan and found.hash == plan.hash
    assert found.n_jobs == 300_000
    first, last = next(found.ranges(0)), next(found.ranges(299_999))
    assert (first.source, first.start, first.end) == (0, 0, 4 << 20)
    assert (last.source, last.start, last.end) == (99_999, 8 << 20, 10_000_000)
    assert time.monotonic() - started < 60


def test_a_plan_is_made_once(tmp_path, model, text):
    plan, _ = make_plan(model, [text], tmp_path / "out", shard_mb=SMALL)
    before = (tmp_path / "out/plan.json").read_bytes()
    again, _ = make_plan(model, [text], tmp_path / "out", shard_mb=SMALL)
    assert again == plan and (tmp_path / "out/plan.json").read_bytes() == before
    for changed, name in [
        ({"dtype": "float16"}, "kept.dtype"),
        ({"shard_mb": 2 * SMALL}, "shard_bytes"),
        ({"layers": "top"}, "kept.weights, kept.layers"),
        ({"reading": Reading(lang="de")}, "reading.lang"),
        ({"computing": Computing(batch_tokens=7)}, "computing.batch_tokens"),
    ]:
        options = {"shard_mb": SMALL, **changed}
        with pytest.raises(ValueError, match=rf"EL201.*settings: {name}\."):
            make_plan(model, [text], tmp_path / "out", **options)
    other = write_lines(tmp_path / "b.txt", 9)
    with pytest.raises(ValueError, match=r"EL201.*settings: inputs"):
        make_plan(model, [text, other], tmp_path / "out", shard_mb=SMALL)
    assert not any((tmp_path / "out/shards").iterdir())


def test_a_changed_plan_is_refused(tmp_path, model, text):
    with pytest.raises(FileNotFoundError, match="EL214"):
        embed.open(tmp_path / "out")
    make_plan(model, [text], tmp_path / "out")
    path = tmp_path / "out/plan.json"
    good = json.loads(path.read_text())
    for changed in (
        {**good, "shard_bytes": 3},
        {**good, "format_version": 1},
        {**good, "surprise": 1},
        {**good, "inputs": [{"path": 3}]},
        {**good, "kept": {**good["kept"], "pool": "all"}},
        {**good, "estimate": {}},
        {**good, "estimate": {**good["estimate"], "sentences": "many"}},
        {},
        [],
    ):
        path.write_text(json.dumps(changed))
        with pytest.raises(ValueError, match="EL202"):
            read_plan(tmp_path / "out")
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="EL202"):
        read_plan(tmp_path / "out")


def test_a_plan_of_another_format_is_refused(tmp_path):
    """Though its hash is right."""
    replace(big_plan(1, 9), format_version=1).save(tmp_path)
    said = json.loads((tmp_path / "plan.json").read_text())
    assert said["format_version"] == 1
    with pytest.raises(ValueError, match=r"EL202.*another version"):
        read_plan(tmp_path)


@pytest.mark.parametrize("changed", [{"kind": "odd"}, {"compression": ".odd"}])
def test_a_plan_of_text_of_an_unknown_kind_is_refused(tmp_path, changed):
    """Though its hash is right."""
    plan = big_plan(1, 9)
    replace(plan, inputs=(replace(plan.inputs[0], **changed),)).save(tmp_path)
    with pytest.raises(ValueError, match=r"EL202.*unknown kind"):
        read_plan(tmp_path)


def test_a_plan_of_version_0_2_goes_on_by_its_own_rules(tmp_path, model):
    """It has no checksums, and its sentences go on after the end of a line."""
    text = write_jsonl(tmp_path / "a.jsonl", [{"text": "A title\nA text. More"}])
    plan, _ = make_plan(model, [text], tmp_path / "new")
    inputs = tuple(replace(source, checksum=None) for source in plan.inputs)
    replace(plan, format_version=2, inputs=inputs).save(tmp_path / "old")
    saved = json.loads((tmp_path / "old/plan.json").read_text())
    assert "checksum" not in saved["inputs"][0] and "document" not in saved["inputs"][0]
    plan, encoder = make_plan(model, [text], tmp_path / "old")
    assert plan.format_version == 2
    run(tmp_path / "old", encoder=encoder)
    run(tmp_path / "new")
    found = {
        name: [len(s.tokens) for s in embed.open(tmp_path / name).sentences()]
        for name in ("old", "new")
    }
    assert found == {"old": [5, 1], "new": [2, 3, 1]}
    assert embed.verify(tmp_path / "old", full=True).problems == []
    shutil.copyfile(text, tmp_path / "copy")
    (tmp_path / "copy").rename(text)
    assert embed.verify(tmp_path / "new", full=True).problems == []
    with pytest.raises(ValueError, match="EL204"):  # nothing says that it is the same
        embed.verify(tmp_path / "old")


def test_an_input_that_was_copied_is_the_same(tmp_path, model, text):
    output = embed_files(tmp_path, [text])
    before, good = shards(output), Path(text).read_bytes()
    os.utime(text, ns=(0, 10**18))
    min((output / "shards").iterdir()).unlink()
    make_plan(model, [text], output, shard_mb=SMALL)  # by the same command
    run(output)
    assert shards(output) == before
    min((output / "shards").iterdir()).unlink()
    for n, other in enumerate([good.replace(b"Line 5 ", b"Line 6 ", 1), good + b"x\n"]):
        Path(text).write_bytes(other)
        os.utime(text, ns=(0, 10**18 + 10**9 * (n + 1)))
        with pytest.raises(ValueError, match="EL204"):
            run(output)
        with pytest.raises(ValueError, match=r"EL201.*inputs"):
            make_plan(model, [text], output, shard_mb=SMALL)


def test_one_document_a_file(tmp_path):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.txt").write_text("One line\nof two. Three.\n\nEnd\n")
    long = "".join(f"Line {i} of many.\n" for i in range(400))
    (folder / "sub" / "a.txt").write_text(long)
    (folder / "empty.txt").touch()
    output = embed_files(tmp_path, [str(folder)], one_per_file=True)
    assert len(shards(output)) > 3
    corpus = embed.open(output)
    assert [document.id for document in corpus] == ["b.txt", "sub/a.txt"]
    sentences = [s.tokens for s in corpus["b.txt"].sentences]
    expected = [["One", "line"], ["of", "two", "."], ["Three", "."], ["End"]]
    assert sentences == expected
    assert len(list(corpus["sub/a.txt"].sentences)) == 400
    ((_, starts, ends),) = corpus["b.txt"].offsets
    text = (folder / "b.txt").read_text()
    assert [text[a:b] for a, b in zip(starts, ends)] == corpus["b.txt"].tokens
    assert embed.verify(output, full=True).problems == []


def test_the_model_is_the_plans(tmp_path, model, text, monkeypatch):
    make_plan(model, [text], tmp_path / "out")
    shutil.rmtree(model)
    save_model(Path(model), hidden_dim=48)
    with pytest.raises(ValueError, match="EL209"):
        run(tmp_path / "out")
    shutil.rmtree(model)
    save_model(Path(model))
    monkeypatch.setattr("spacy.__version__", "4.0")
    with pytest.raises(ValueError, match=r"EL201.*4\.0"):
        run(tmp_path / "out")


def test_forced_kernels_are_the_plans(tmp_path, model, text):
    """Whoever continues gets the plan's kernels, or says others and is refused."""
    chosen = embed_files(tmp_path, [text])
    with force(lstm="definition"):
        plan, encoder = make_plan(model, [text], tmp_path / "whole", shard_mb=SMALL)
        run(tmp_path / "whole", encoder=encoder)
        make_plan(model, [text], tmp_path / "later", shard_mb=SMALL)
    assert plan.computing.kernels == (("lstm", "definition"),)
    with (
        force(lstm="autograd_lstm"),
        pytest.raises(ValueError, match=r"EL201.*kernels"),
    ):
        run(tmp_path / "later")
    run(tmp_path / "later")
    assert shards(tmp_path / "later") == shards(tmp_path / "whole") != shards(chosen)
    with pytest.raises(ValueError, match=r"EL201.*kernels"):
        make_plan(model, [text], tmp_path / "later", shard_mb=SMALL)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kernels": (("lstm", "cpu_lstm"),)}, "EL073.*'cpu_lstm'.*native_lstm"),
        ({"kernels": (("directions", "two_threads"),)}, "EL073.*'directions'.*lstm"),
        ({"precision": "int8", "exact": False}, "EL097.*'half'"),
    ],
)
def test_a_plan_with_what_is_gone(tmp_path, model, text, changes, said):
    """Can be read, and whoever continues is told what is not computed any more."""
    output = tmp_path / "out"
    plan, _ = make_plan(model, [text], output)
    before = replace(plan, computing=replace(plan.computing, **changes))
    (output / "plan.json").unlink()
    before.save(output)
    assert read_plan(output) == before
    with pytest.raises(ValueError, match=said):
        run(output)


def test_vectors_are_not_written_into_the_pipeline_that_is_read(tmp_path, model, text):
    spacy.blank("xx").to_disk(tmp_path / "pipe")
    reading = Reading(pipeline=str(tmp_path / "pipe"))
    with pytest.raises(ValueError, match=r"EL207.*outside of the pipeline"):
        make_plan(model, [text], tmp_path / "pipe" / "vectors", reading=reading)
    assert not (tmp_path / "pipe" / "vectors").exists()


def test_settings_that_are_not_possible(tmp_path, model, text, monkeypatch):
    def refused(**options):
        with pytest.raises(ValueError, match="EL207"):
            make_plan(model, [text], tmp_path / "out", **options)

    refused(layers="3")
    refused(layers="mix")
    refused(dtype="float64")
    refused(pool="word")
    refused(kind="pdf")
    refused(shard_mb=0)
    for limit in (0, -1):
        refused(limit_mb=limit)
    for n in (0, -1):
        refused(reading=Reading(window=n))
        refused(computing=Computing(threads=n))
        refused(computing=Computing(batch_tokens=n))
    # In the ranges of these, what is no int would be looked for by counting.
    refused(reading=Reading(window=250.5))
    refused(computing=Computing(threads="2"))
    refused(shard_mb="4")
    for device in ("tpu", "cuda:0", "CPU"):
        refused(computing=Computing(device=device))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match=r"EL151.*finds 0"):
        make_plan(model, [text], tmp_path / "out", computing=Computing(device="cuda"))
    assert not (tmp_path / "out" / "plan.json").exists()
    with pytest.raises(ValueError, match="EL032"):
        make_plan(
            model, [text], tmp_path / "out", reading=Reading(tokenizer="characters")
        )
    with pytest.raises(ValueError, match="EL032"):
        make_plan(model, [text], tmp_path / "out", reading=Reading(lang="qq"))
    with pytest.raises(ValueError, match="EL215"):
        make_plan(model, [text], tmp_path / "out", mix_of="ner")
    make_plan(model, [text], tmp_path / "out")
    for share in [(0, 3), (4, 3), (1, 0)]:
        with pytest.raises(ValueError, match=r"EL207.*share ="):
            run(tmp_path / "out", share=share)
    with pytest.raises(ValueError, match="EL207"):
        run(tmp_path / "out", processes=0)


def test_a_pipeline_that_is_installed(tmp_path, text, monkeypatch):
    """An environment is a folder with packages and what says that they are there."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"weights": save_model(tmp_path / "model")})
    package = tmp_path / "site" / "xx_installed"
    package.mkdir(parents=True)
    nlp.to_disk(package / "data")
    load = "load_model_from_path(Path(__file__).parent / 'data', **overrides)"
    package.joinpath("__init__.py").write_text(
        "from pathlib import Path\nfrom spacy.util import load_model_from_path\n"
        f"def load(**overrides):\n    return {load}\n"
    )
    installed = tmp_path / "site" / "xx_installed-1.0.dist-info"
    installed.mkdir()
    installed.joinpath("METADATA").write_text("Name: xx_installed\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    plan, _ = make_plan("xx_installed", [text], tmp_path / "out")
    assert plan.fingerprint == nlp.get_pipe("elmo").bilm.fingerprint()
    assert run(tmp_path / "out").tokens > 0


def test_no_text(tmp_path, model):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match="EL206"):
        make_plan(model, [str(tmp_path / "empty.txt")], tmp_path / "out")
    (tmp_path / "blank.txt").write_text("\n \n\n")
    output = embed_files(tmp_path, [str(tmp_path / "blank.txt")])
    assert len(embed.open(output)) == 0 and len(shards(output)) == 1


def test_standard_input_is_kept(tmp_path, model, text, monkeypatch):
    def plan(data):
        stdin = io.TextIOWrapper(io.BytesIO(data))
        monkeypatch.setattr(sys, "stdin", stdin)
        return make_plan(model, ["-"], tmp_path / "out")[0]

    found = plan(b"A line.\n")
    assert Path(found.inputs[0].path).read_bytes() == b"A line.\n"
    assert plan(b"A line.\n") == found
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    with pytest.raises(ValueError, match="EL201"):
        plan(b"Another line.\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


def test_standard_input_of_a_plan_that_is_refused(tmp_path, model, monkeypatch):
    """No copy of it is left, whatever is refused."""
    output = tmp_path / "out"

    def refused(data, code):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises((ValueError, OSError), match=code):
            make_plan(model, ["-"], output)
        return not list(output.glob("stdin*"))

    assert refused(b"", "EL206")
    assert refused(b"A line.\n\xff\n", "EL031")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=3))
        assert refused(b"A line.\n", "EL203")
    (output / "plan.json").write_text("{")
    assert refused(b"A line.\n", "EL202")


def test_standard_input_of_another_process(tmp_path, model, monkeypatch):
    """It made the plan while this one measured. Its input stays."""
    output, estimate = tmp_path / "out", planning.estimate

    def plan():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A line.\n")))
        make_plan(model, ["-"], output)

    def overtaken(*args):
        monkeypatch.setattr(planning, "estimate", estimate)
        plan()
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "estimate", overtaken)
    with pytest.raises(KeyboardInterrupt):
        plan()
    assert run(output).tokens == 3


def test_an_input_without_a_name(tmp_path, model, text, monkeypatch):
    """Of a shell variable that is not set, and not all files of the working folder."""
    monkeypatch.chdir(Path(text).parent)
    with pytest.raises(ValueError, match="EL206"):
        make_plan(model, [""], tmp_path / "out")


def test_standard_input_that_is_closed(tmp_path, model, text, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    make_plan(model, [text], tmp_path / "out")
    with pytest.raises(ValueError, match="EL206"):
        make_plan(model, ["-"], tmp_path / "none")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0, 1e40, "4"])
@pytest.mark.parametrize("name", ["shard_mb", "limit_mb"])
def test_sizes_that_are_none(tmp_path, model, text, name, value):
    with pytest.raises(ValueError, match=f"EL207.*{name} = .*a number.* megabytes"):
        make_plan(model, [text], tmp_path / "out", **{name: value})


def test_less_can_be_read(tmp_path):
    text = write_lines(tmp_path / "a.txt", 200)
    output = embed_files(tmp_path, [text], limit_mb=2 * SMALL)
    assert len(shards(output)) == 2 and 30 < len(embed.open(output)) < 100


def test_the_gpu_that_is_named_measures_and_encodes(model, text, tmp_path, monkeypatch):
    """As far as a machine without one can tell: it is asked for, and a CPU computes."""
    asked = []

    def encoder(bilm, kept, computing, gpu_id=0):
        asked.append((computing.device, gpu_id))
        return Encoder(bilm, kept, replace(computing, device="cpu"))

    monkeypatch.setattr(plans, "Encoder", encoder)
    options = embed.Options(computing=Computing(device="cuda"))
    embed.make_plan(str(model), [str(text)], tmp_path / "out", options, gpu_id=1)
    assert asked == [("cuda", 1)] * 2
