"""What the README of version 0.1.0 showed works, or fails with a message that names
what took its place; CHANGELOG.md has the table."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
import srsly
from spacy import registry as spacy_registry
from typer.testing import CliRunner

import spacy_elmo
from spacy_elmo import BiLM
from spacy_elmo.cli import app
from spacy_elmo.pretrain.config_file import read_config
from spacy_elmo.registry import registry

from .cli.parsing import parse
from .models import tiny_config
from .pipelines import add_elmo, sizes

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

# Commands that moved: as they were -> what the message names.
MOVED_COMMANDS = {
    "benchmark pretrain": "python -m benchmarks.pretrain",
    "benchmark ngram corpus/english corpus/english_test": "python -m benchmarks.ngram",
    "benchmark pipe": "python -m benchmarks.pipe",
    "benchmark scaling --size small --docs 10000": "python -m benchmarks.scaling",
    "benchmark layer-cache corpus/english_dev": "python -m benchmarks.layer_cache",
    "vocab-cache en_elmo_sm words.txt": "cache_words",
}
# Commands that are as they were.
COMMANDS = """
init-config ner.cfg --pipeline ner,tagger
init-config ner.cfg --weights en_elmo_sm --finetune --elmo input,output
init-config ner.cfg --static en_core_web_md
mix training/ner/model-best -o mix.png
models
models en_elmo_sm
neighbours en_elmo_sm news.txt --word day --context "What a fine day!" --lang xx
info en_elmo_sm
info en_elmo_sm --config
convert en_elmo_sm converted
convert en_elmo_sm exported --to bilm-tf
prepare news.txt --output prepared --vocab-size 50000 --processes 2
pretrain configs/pretrain_small.cfg --output training/mine --training.batch_size 4
perplexity en_elmo_sm held_out.txt --lang xx
curve training/mine --output curve.png
benchmark inference corpus/english_dev --size small --batch-size 64 --threads 1
benchmark inference --tokens 4000 --rounds 2
benchmark precision PIPELINE CORPUS
""".strip().splitlines()
ARCHITECTURES = ["BiLM", "ElmoListener", "Embed", "Encode", "StaticVectors", "CharCnn"]
REGISTERED = {
    "objectives": ["FullSoftmax", "AdaptiveSoftmax", "SampledSoftmax"],
    "optimizers": ["Adam", "Adagrad", "SGD"],
    "schedules": ["WarmupCosine", "WarmupLinear", "WarmupStableDecay", "Constant"],
}
LISTENER = {
    "mix": "learned",
    "l2": 0.001,
    "gamma": 1.0,
    "layer_norm": True,
    "dropout": 0.1,
    "upstream": "*",
}
COMPONENT = {
    "frozen": True,
    "learn_rate": 1e-4,
    "unfreeze_every": 200,
    "mix_weights": [1.0, 1.0, 1.0],
    "gamma": 1.0,
    "set_tensor": True,
    "similarity_hooks": False,
    "max_layers_mb": 1024,
}
MODEL = {
    "batch_tokens": 4096,
    "cache_words": 100,
    "precision": "float32",
    "get_spans": {"@misc": "spacy-elmo.Windows.v1", "length": 250},
}
TRAINING = """
[text]
train = ["train.txt"]
dev = ["dev.txt"]
also = {"general": ["general.txt"]}

[vocab]
size = 16000

[training]
init = "en_elmo_sm"
new_softmax = true
softmax_first = 1000
batch_size = 64
accumulate = 2
unroll_steps = 20
max_steps = 20
dropout = 0.1
precision = "bfloat16"
threads = 2
device = "cpu"
tensorboard = true

[training.objective]
@objectives = "spacy-elmo.SampledSoftmax.v1"
samples = 100

[training.logger]
@loggers = "spacy.ConsoleLogger.v3"
"""


@pytest.mark.parametrize("name", ["BiLM", "component_config", "similarity"])
def test_python_names(name):
    assert callable(getattr(spacy_elmo, name))


def test_python_calls(tmp_path):
    bilm = BiLM.random(tiny_config(), seed=1)
    bilm.save(tmp_path / "published", format="bilm-tf")
    nlp = spacy.blank("en")
    config = spacy_elmo.component_config(tmp_path / "published")
    elmo = nlp.add_pipe("elmo", config=config)
    elmo.load_weights(tmp_path / "published")
    elmo.use_layer_cache(tmp_path / "layers.sqlite")
    doc = nlp("Vectors as published.")
    assert doc.tensor.shape == (4, 12) and doc._.elmo.layers.shape == (3, 4, 12)
    layers = BiLM.load(tmp_path / "published").encode([["A", "sentence", "."]])
    assert layers[0].shape == (3, 3, 12)
    assert spacy_elmo.similarity(doc[0], doc[1], layer=0) < 1


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name):
    assert spacy_registry.architectures.get(f"spacy-elmo.{name}.v1")


def test_readers_and_misc():
    assert spacy_registry.readers.get("spacy-elmo.WeightsReader.v1")
    assert spacy_registry.misc.get("spacy-elmo.Windows.v1")


@pytest.mark.parametrize(
    ("group", "name"), [(group, n) for group in REGISTERED for n in REGISTERED[group]]
)
def test_blocks_of_training(group, name):
    assert getattr(registry, group).get(f"spacy-elmo.{name}.v1")


def test_settings_of_a_pipeline():
    nlp = spacy.blank("en")
    add_elmo(nlp, model=MODEL, **COMPONENT)
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1", **LISTENER}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": model})
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]
    assert {**sizes(tiny_config()), **MODEL}.items() <= (
        nlp.get_pipe_config("elmo")["model"].items()
    )


def test_settings_of_training(tmp_path):
    path = tmp_path / "run.cfg"
    path.write_text(TRAINING)
    config = read_config(path)
    assert config.training.softmax_first == 1000 and config.vocab.size == 16000


@pytest.mark.parametrize("line", COMMANDS)
def test_commands(line):
    command, _ = parse(app, shlex.split(line))
    assert not command.hidden


@pytest.mark.parametrize("line", MOVED_COMMANDS)
def test_moved_commands_say_where_they_are(line):
    done = CliRunner().invoke(app, shlex.split(line))
    said = " ".join(done.output.split())
    assert done.exit_code == 1 and MOVED_COMMANDS[line] in said and "[EL" in said


def test_moved_modules_say_where_they_are():
    command = [sys.executable, "-m", "spacy_elmo.workflows.corpora", "convert"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "[EL119]" in done.stderr
    with pytest.raises(ImportError, match=r"EL119.*python -m experiments"):
        importlib.import_module("spacy_elmo.workflows")


def test_workflows_of_the_table_are_there():
    projects = {
        name: srsly.read_yaml(ROOT / folder / "project.yml")
        for name, folder in (("", "."), (" experiments", "experiments"))
    }
    rows = re.findall(
        r"`spacy project run (\w+)( experiments)?` \|$", CHANGELOG, re.MULTILINE
    )
    assert len(rows) > 5
    for name, place in rows:
        commands = {command["name"] for command in projects[place]["commands"]}
        assert name in commands | set(projects[place]["workflows"])


def test_modules_of_the_table_are_there():
    names = set(re.findall(r"`python -m ((?:experiments|benchmarks)\.\w+)", CHANGELOG))
    assert len(names) > 8
    for name in names:
        place = ROOT / name.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), (
            name
        )


def test_changelog_has_the_table():
    rows = re.findall(r"^\| `spacy elmo ([^`]+)` \| (.+) \|$", CHANGELOG, re.MULTILINE)
    for line, new in MOVED_COMMANDS.items():
        assert any(line.startswith(old) and f"`{new}`" in said for old, said in rows)
