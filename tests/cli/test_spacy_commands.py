"""spaCy's own commands, as users run them, on pipelines with `elmo`."""

import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.pipeline import make_config

from ..models import tiny_config
from .test_cli import run as run_here

COMPONENTS = [
    "tagger",
    "morphologizer",
    "ner",
    "parser",
    "senter",
    "textcat",
    "spancat",
    "trainable_lemmatizer",
]


def annotated(path):
    """Two kinds of sentences, with everything annotated."""
    nlp = spacy.blank("en")
    docs = DocBin(store_user_data=True)
    for name in ["London", "Paris", "Kim", "Seoul", "Jo"] * 12:
        for first, verb, lemma in (("She", "likes", "like"), ("We", "saw", "see")):
            words = [first, verb, name, "now", ".", "He", "runs", "."]
            doc = Doc(
                nlp.vocab,
                words=words,
                tags=["PRP", "VB", "NNP", "RB", ".", "PRP", "VB", "."],
                pos=["PRON", "VERB", "PROPN", "ADV", "PUNCT", "PRON", "VERB", "PUNCT"],
                morphs=["Case=Nom", "", "Number=Sing", "", "", "Case=Nom", "", ""],
                lemmas=[first.lower(), lemma, name, "now", ".", "he", "run", "."],
                heads=[1, 1, 1, 1, 1, 6, 6, 6],
                deps=[
                    "nsubj",
                    "ROOT",
                    "obj",
                    "advmod",
                    "punct",
                    "nsubj",
                    "ROOT",
                    "punct",
                ],
                ents=["O", "O", "B-NAME", "O", "O", "O", "O", "O"],
                sent_starts=[True, *[False] * 4, True, False, False],
            )
            doc.cats = {"US": float(first == "We"), "HER": float(first == "She")}
            doc.spans["sc"] = [Span(doc, 2, 3, "NAME")]
            docs.add(doc)
    docs.to_disk(path)


def run(*command, folder, fails=False, env=None):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
    )
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    annotated(folder / "train.spacy")
    annotated(folder / "dev.spacy")
    BiLM.random(tiny_config(), seed=1).save(folder / "bilm")
    return folder


PATHS = ["--paths.train", "train.spacy", "--paths.dev", "dev.spacy"]
RATE = "--training.optimizer.learn_rate"
SHORT = [
    "--training.max_steps", "40", "--training.eval_frequency", "20",
    f"{RATE}.warmup_steps", "4", f"{RATE}.total_steps", "80",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(folder):
    """All components on one elmo, each with mixes of its own."""
    run(
        "spacy", "elmo", "init-config", "all.cfg", "--pipeline", ",".join(COMPONENTS),
        "--weights", "bilm", "--at", "both", folder=folder,
    )  # fmt: skip
    run("spacy", "train", "all.cfg", "--output", "all", *PATHS, *SHORT, folder=folder)
    return folder / "all" / "model-last"


@pytest.mark.slow
def test_every_component_learns_with_a_mix_of_its_own(trained):
    nlp = spacy.load(trained)
    elmo = nlp.get_pipe("elmo")
    assert elmo.listening_components == COMPONENTS
    gammas = set()
    for name in COMPONENTS:
        below, above = elmo.listener_map[name]
        for listener in (below, above):
            assert listener.get_param("W").any()
            gammas.add(float(listener.get_param("gamma")[0]))
    assert len(gammas) == 2 * len(COMPONENTS)
    doc = nlp("She likes London now. He runs.")
    assert {ent.text for ent in doc.ents} <= {"London"}
    assert len(list(doc.sents)) == 2
    assert [t.tag_ for t in doc][:3] == ["PRP", "VB", "NNP"]
    assert doc[1].lemma_ == "like" and doc.cats
    assert {token.dep_ for token in doc} - {""}
    assert nlp.get_pipe("spancat").key in doc.spans
    again = next(nlp.pipe(["She likes London now. He runs."]))
    assert again.to_json() == doc.to_json()


@pytest.mark.slow
def test_debug_evaluate_apply_benchmark(folder, trained):
    out = run("spacy", "debug", "data", "all.cfg", *PATHS, folder=folder)
    assert "checks passed" in out and "failed" not in out.lower()
    out = run("spacy", "evaluate", trained, "dev.spacy", folder=folder)
    for score in ("TAG", "MORPH", "NER F", "LAS", "TEXTCAT", "SPAN F", "LEMMA"):
        assert score in out, score
    (folder / "texts.jsonl").write_text('{"text": "We saw Kim now."}\n')
    run("spacy", "apply", trained, "texts.jsonl", "out.spacy", folder=folder)
    (doc,) = DocBin().from_disk(folder / "out.spacy").get_docs(spacy.blank("en").vocab)
    assert doc[0].tag_ == "PRP"
    out = run(
        "spacy", "benchmark", "speed", trained, "dev.spacy", "--batches", "30",
        "--batch-size", "4", "--warmup", "1", folder=folder,
    )  # fmt: skip
    assert "words/s" in out


@pytest.mark.slow
def test_mix_command(folder, trained):
    out = run(
        "spacy", "elmo", "explore", "mix", trained, "-o", "mix.png", folder=folder
    )
    assert all(name in out for name in COMPONENTS)
    assert (folder / "mix.png").read_bytes()[:4] == b"\x89PNG"
    plot = ["-o", "-", "--format", "plot"]
    out = run("spacy", "elmo", "explore", "mix", trained, *plot, folder=folder)
    assert out.startswith("<?xml") and out.rstrip().endswith("</svg>")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.to_disk(folder / "no_listeners")
    out = run(
        "spacy", "elmo", "explore", "mix", "no_listeners", folder=folder, fails=True
    )
    assert "EL090" in out


@pytest.mark.slow
def test_packaged_pipeline_loads_elsewhere(folder, trained):
    run("spacy", "package", trained, ".", "--build", "wheel", folder=folder)
    (wheel,) = folder.glob("en_pipeline-*/dist/*.whl")
    # It asks for what it needs ...
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = (n for n in files.namelist() if n.endswith("/METADATA"))
        assert b"Requires-Dist: spacy-elmo" in files.read(metadata)
    # ... and from a place of its own it loads and can be looked at, with no network.
    install = ["pip", "install", "--no-deps", "--no-index", "--target", "elsewhere"]
    run(*install, wheel, folder=folder)
    (folder / "empty").mkdir()
    elsewhere = {"PYTHONPATH": str(folder / "elsewhere")}
    code = (
        "import sys; sys.addaudithook(lambda event, _: "
        "event in ('socket.connect', 'socket.getaddrinfo') and 1 / 0); "
        "import en_pipeline; nlp = en_pipeline.load(); "
        "print(nlp('She likes London now.').tensor.shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder / "empty",
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **elsewhere},
    )
    assert "(5, 12)" in done.stdout, done.stderr
    out = run(
        "spacy", "elmo", "explore", "mix", "en_pipeline", folder=folder, env=elsewhere
    )
    assert "tagger" in out


@pytest.mark.slow
def test_assemble(folder, trained):
    config = make_config(["tagger"], weights=str(folder / "bilm"), places=["output"])
    text = config.replace(
        '[components.tagger]\nfactory = "tagger"',
        f'[components.tagger]\nsource = "{trained}"',
    )
    source = spacy.util.load_config_from_str(text, interpolate=False)
    source["components"]["elmo"] = {"source": str(trained)}
    source["components"]["tagger"] = {"source": str(trained)}
    source["initialize"]["components"] = {}
    source.to_disk(folder / "assemble.cfg")
    run("spacy", "assemble", "assemble.cfg", "assembled", folder=folder)
    nlp = spacy.load(folder / "assembled")
    assert [t.tag_ for t in nlp("We saw Kim now.")][:3] == ["PRP", "VB", "NNP"]
    assert nlp.pipe_names == ["elmo", "tagger"]


@pytest.mark.slow
@pytest.mark.parametrize("places", [["input"], ["output"], ["input", "output"]])
@pytest.mark.parametrize("frozen", [True, False])
def test_configurations_train_as_they_are(folder, places, frozen):
    text = make_config(
        ["tagger", "ner"], weights=str(folder / "bilm"), places=places, frozen=frozen
    )
    (folder / "some.cfg").write_text(text, encoding="utf-8")
    out = run("spacy", "train", "some.cfg", "--output", "some", *PATHS, *SHORT,
              folder=folder)  # fmt: skip
    assert "Saved pipeline" in out
    nlp = spacy.load(folder / "some" / "model-last")
    listeners = nlp.get_pipe("elmo").listener_map
    assert [len(found) for found in listeners.values()] == [len(places)] * 2
    weights = BiLM.load(folder / "bilm").forward_lstm.layers[1].weight_h
    trained = nlp.get_pipe("elmo").bilm.forward_lstm.layers[1].weight_h
    assert frozen == bool((weights == trained).all())


@pytest.mark.slow
def test_options_of_init_config(folder, tmp_path):
    """Static vectors beside ELMo's, and a biLM that is trained along."""
    source = spacy.blank("en")
    source.vocab.set_vector("London", np.arange(8, dtype="float32"))
    source.to_disk(tmp_path / "vectors")
    run(
        "spacy", "elmo", "init-config", "static.cfg", "--pipeline", "tagger",
        "--weights", "bilm", "--finetune", "--static", tmp_path / "vectors",
        folder=folder,
    )  # fmt: skip
    run("spacy", "debug", "data", "static.cfg", *PATHS, folder=folder)
    run("spacy", "train", "static.cfg", "--output", "static", *PATHS, *SHORT,
        folder=folder)  # fmt: skip
    nlp = spacy.load(folder / "static" / "model-last")
    assert nlp.get_pipe("elmo").frozen is False
    assert nlp.vocab["London"].vector.tolist() == list(range(8))
    embed = nlp.config["components"]["tagger"]["model"]["tok2vec"]["embed"]
    assert embed["include_static_vectors"]
    assert nlp("We saw Kim")[0].tag_ == "PRP"


def test_bad_requests(folder):
    for places in (["middle"], ["input", "middle"], ["both"], [""]):
        with pytest.raises(ValueError, match=r"EL089.*--at both"):
            make_config(["tagger"], places=places)
    for name in ("nothing", "entity_ruler", "lemmatizer", "elmo"):
        with pytest.raises(ValueError, match="EL091"):
            make_config([name])
    with pytest.raises(ValueError, match="EL081"):
        make_config(["tagger"], lang="sv")
    none, there = folder / "none.cfg", folder / "there.cfg"
    run_here("init-config", none, "--layer-cache", "none")
    assert "layer_cache = null" in none.read_text(encoding="utf-8")
    there.write_text("mine")
    assert "--force" in run_here("init-config", there, fails=True)
    assert there.read_text() == "mine"
