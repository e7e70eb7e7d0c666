"""Files that revision 76d3c6b wrote (tests/made_by_0_2, with the script that made them)
are read, resumed and finished with the same results."""

import gzip
import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
from safetensors.torch import load_file
from thinc.api import Adam

from spacy_elmo import BiLM, embed
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.embed.planning import versions
from spacy_elmo.errors import Errors
from spacy_elmo.pipeline.cache import FileCache, context_of, key_of
from spacy_elmo.pipeline.encoder import shim_of
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loggers import read_log
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.text import Request, describe, prepare
from spacy_elmo.text.shards import manifest_hash

from .pipelines import examples

MADE = Path(__file__).parent / "made_by_0_2"
SENTENCES = [["The", "cat", "sat"], ["고양이", "가", "잔다", "."]]
READ = ["I like Paris now", "가나 saw  Kim \n again", "", "We", "x" * 60 + " hates"]
# Other processors and versions of torch round otherwise.
TOLERANCE = 1e-5
RUNS = {"adaptive_muon": 1e-4, "sampled_adam": 1e-5}


@pytest.fixture(scope="module")
def expected():
    with np.load(MADE / "expected.npz") as arrays:
        return dict(arrays)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(MADE, tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")  # configurations name files below it
    return tmp_path / "made"


def close(found, wanted):
    return np.allclose(found, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights(dtype, expected, tmp_path):
    bilm = BiLM.load(MADE / "weights" / dtype)
    for i, layers in enumerate(bilm.encode(SENTENCES)):
        assert close(layers, expected[f"{dtype}_{i}"])
    bilm.save(tmp_path, dtype=dtype)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (MADE / "weights" / dtype / path.name).read_bytes()


def assert_as_before(nlp, expected):
    tagger, ner = nlp.get_pipe("tagger"), nlp.get_pipe("ner")
    for i, text in enumerate(READ):
        doc = nlp(text)
        assert close(doc.tensor, expected[f"tensor{i}"])
        assert close(doc._.elmo.layers, expected[f"layers{i}"])
        assert np.array_equal(tagger.predict([doc])[0], expected[f"tags{i}"])
        entities = doc.to_array(["ENT_TYPE", "ENT_IOB"])
        assert np.array_equal(entities, expected[f"entities{i}"])
        if len(doc):
            assert close(tagger.model.predict([doc])[0], expected[f"scores{i}"])
            tok2vec = ner.model.get_ref("tok2vec")
            assert close(tok2vec.predict([doc]), expected[f"tok2vec{i}"])


def test_pipeline(expected, tmp_path):
    nlp = spacy.load(MADE / "pipeline")
    assert_as_before(nlp, expected)
    nlp.to_disk(tmp_path)
    assert_as_before(spacy.load(tmp_path), expected)


def test_a_pipeline_is_fine_tuned_by_the_settings_that_it_has():
    """learn_rate = 0.0003 and unfreeze_every = 200."""
    nlp = spacy.load(MADE / "pipeline")
    elmo = nlp.get_pipe("elmo")
    elmo.frozen = False
    before = {name: p.clone() for name, p in elmo.bilm.state_dict().items()}
    optimizer = nlp.resume_training(sgd=Adam(0.001, L2=0.0, use_averages=False))
    with pytest.warns(UserWarning, match=r"ELW71.*0\.0003.*200"):
        nlp.update(examples(nlp), sgd=optimizer)
    after = elmo.bilm.state_dict()
    steps = {name: float((after[name] - before[name]).abs().max()) for name in before}
    moved = {name for name, step in steps.items() if step}
    assert moved and all("lstm.layers.1." in name for name in moved)
    assert 0.00029 < max(steps.values()) < 0.00031  # Adam's first one is the rate


def test_layer_cache(expected, tmp_path):
    path = tmp_path / "layers"
    path.write_bytes(gzip.decompress((MADE / "layers.gz").read_bytes()))
    context = (MADE / "context.txt").read_text(encoding="utf-8")
    nlp = spacy.load(MADE / "pipeline")
    doc = nlp.make_doc(READ[0])
    key = key_of(context, [token.text for token in doc])
    cache = FileCache(path, 1 << 24)
    assert close(cache.read([key])[key], expected["layers0"])
    cache.close()

    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache(path)
    if context_of(shim_of(elmo.model)) == context:  # the processor, torch, the kernels
        elmo(doc)
        assert elmo.layer_cache.hits == 1
    else:
        with pytest.warns(UserWarning, match="ELW08"):
            elmo(doc)
    assert close(doc._.elmo.layers, expected["layers0"])


@pytest.mark.parametrize("name", ["train", "dev"])
def test_prepared_text(name, folder):
    before = {path.name: path.read_bytes() for path in Path("prepared", name).iterdir()}
    request = Request(tokenizer="whitespace", vocab_size=40)
    prepare([Path(f"{name}.txt")], folder / "again", request, progress=False)
    after = {path.name: path.read_bytes() for path in (folder / "again").iterdir()}
    then, now = (json.loads(found.pop("manifest.json")) for found in (before, after))
    assert before == after
    assert now.pop("kinds") == ["text"] and "kinds" not in then
    for manifest in (then, now):
        manifest.pop("sha256")
    assert now == then


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_as_it_would_have(name, folder):
    saved = checkpoint.read_progress(folder / name)
    assert saved["step"] == 34
    if name == "adaptive_muon":
        found = manifest_hash(folder / "prepared" / "train")
        assert saved["identity"]["text of train"] == found
    pretrain(read_config(Path(f"{name}.cfg")), folder / name)
    assert checkpoint.read_progress(folder / name)["step"] == 69
    assert [row["step"] for row in read_log(folder / name / "log.jsonl")][-1] == 69
    expected = load_file(f"{name}.expected.safetensors")
    last = folder / name / "model-last"
    for part in ("weights", "softmax"):
        for key, array in load_file(last / f"{part}.safetensors").items():
            wanted = expected.pop(f"{part}.{key}")
            assert (array - wanted).abs().max() <= RUNS[name] * wanted.abs().max(), key
    assert not expected


def test_another_configuration_is_refused(folder):
    config = read_config(Path("sampled_adam.cfg"), {"training.dropout": 0.5})
    with pytest.raises(ValueError, match=r"EL047.*training.dropout was 0.1 and is 0.5"):
        pretrain(config, folder / "sampled_adam")


@pytest.fixture
def vectors(folder):
    """The folder of vectors, whose plan names what is in its path: as if its files had
    been made where they are now, with the versions that are here."""
    output = folder / "embed"
    before = read_plan(output)
    after = replace(
        before,
        model=str(folder / "weights" / "float16"),
        inputs=(describe(folder / "text.txt"),),
        versions=versions(),
    )
    (output / "plan.json").unlink()
    after.save(output)
    for path in (output / "shards").iterdir():
        data = path.read_bytes()
        metadata = json.loads(data[8:8192])["__metadata__"]
        text = metadata["spacy_elmo"].replace(before.hash, after.hash)
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        for old, new in ((before.hash, after.hash), (metadata["checksum"], digest)):
            data = data.replace(old.encode(), new.encode())
        path.write_bytes(data)
    return output


def test_half_the_shards_are_there_and_the_others_are_made(vectors, expected):
    names = {path.name for path in (vectors / "shards").iterdir()}
    finished = {name: (vectors / "shards" / name).stat().st_mtime_ns for name in names}
    assert len(read_plan(vectors).jobs_left(vectors)) == len(names) >= 2
    embed.run(vectors)
    for name, changed in finished.items():
        assert (vectors / "shards" / name).stat().st_mtime_ns == changed
    assert len(list((vectors / "shards").iterdir())) == 2 * len(names)
    documents = list(embed.open(vectors))
    tokens = json.loads((MADE / "tokens.json").read_text(encoding="utf-8"))
    assert [document.tokens for document in documents] == tokens
    found = np.concatenate([document.vectors for document in documents])
    assert close(found, expected["embed"])
    assert not embed.verify(vectors, full=True).problems


@pytest.fixture(params=["parquet", "hdf5"])
def other_format(request, folder):
    """Vectors as float16 that are not stored as safetensors."""
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return folder / f"embed_{request.param}"


def test_vectors_in_other_formats(other_format, expected, tmp_path):
    documents = list(embed.open(other_format))
    tokens = json.loads((MADE / "tokens.json").read_text(encoding="utf-8"))
    assert [document.tokens for document in documents] == tokens
    found = np.concatenate([document.vectors for document in documents])
    assert np.allclose(found, expected["embed"], rtol=0, atol=1e-3)
    assert documents[3].sentences and documents[3].offsets
    for sink in ("safetensors", "hdf5"):
        assert embed.export(other_format, tmp_path / sink, sink) == 1
    options = embed.Options(dtype="float16")
    with pytest.raises(ValueError, match=r"EL201.*sink"):
        embed.make_plan("weights/float16", ["text.txt"], other_format, options)


def test_vectors_in_other_formats_are_checked(other_format, tmp_path):
    (path,) = (other_format / "shards").iterdir()
    good, found = path.read_bytes(), 0
    for at in range(40, len(good), len(good) // 12):
        path.write_bytes(good[:at] + bytes([good[at] ^ 255]) + good[at + 1 :])
        try:
            embed.export(other_format, tmp_path / str(at), "safetensors")
        except Errors.EL208:
            found += 1
    # A byte that means nothing in these formats, or is not read, can't be found.
    assert found > 5
    path.write_bytes(good[:-7])
    with pytest.raises(ValueError, match="EL208"):
        embed.open(other_format)
    path.unlink()
    with pytest.raises(ValueError, match=r"EL207.*safetensors"):
        embed.run(other_format)
