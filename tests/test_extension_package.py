"""A package that adds one thing of each kind: trained with, saved, killed, resumed,
loaded and converted. It is installed with the tests, from tests/extension_package."""

import json
import os
import shutil
import subprocess
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from spacy_elmo import BiLM
from spacy_elmo.bilm import weights as files
from spacy_elmo.pretrain import checkpoint, perplexity
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.corpus import build_corpus

from .cli.test_cli import run
from .models import SENTENCES, same_layers
from .pretrain.runs import CONFIG, command, log, write_config, write_text

ROOT = Path(__file__).parents[1]
NPZ = "elmo-extension-npz"
EXTENSION = {
    "training.objective": {
        "@objectives": "elmo-extension.TemperatureSoftmax.v1",
        "temperature": 0.5,
    },
    "training.optimizer": {
        "@optimizers": "elmo-extension.Lion.v1",
        "learn_rate": 0.01,
    },
    "training.schedule": {
        "@schedules": "elmo-extension.InverseSquareRoot.v1",
        "warmup_steps": 10,
    },
}


@pytest.fixture(scope="module", autouse=True)
def installed():
    try:
        distribution("elmo-extension")
    except PackageNotFoundError:
        pytest.fail("run 'make install', or: pip install -e tests/extension_package")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    write_text(folder)
    text = CONFIG.split("[training.optimizer]")[0]
    write_config(folder, text, **EXTENSION)
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    return pretrain(read_config(folder / "run.cfg"), folder / "whole")


def test_an_optimizer_that_leaves_parameters_out_is_refused(folder, tmp_path):
    sampled = {
        "training.objective": {
            "@objectives": "spacy-elmo.SampledSoftmax.v1",
            "samples": 5,
        }
    }
    text = CONFIG.split("[training.optimizer]")[0].format(folder=folder)
    config = write_config(tmp_path, text, **{**EXTENSION, **sampled})
    with pytest.raises(ValueError, match=r"EL123.*'softmax\."):
        pretrain(read_config(config), tmp_path / "out")


def test_trains_and_loads(folder, trained):
    rows = [row["dev"]["mean"] for row in log(folder / "whole") if "dev" in row]
    assert rows[-1] < rows[0] / 2
    rates = [row["learn_rate"] for row in log(folder / "whole")]
    assert rates[0] == pytest.approx(0.01 * 0.5) and rates[-1] < max(rates)
    model = LanguageModel.load(trained)
    (objective,) = (m for m in model.children() if hasattr(m, "temperature"))
    assert objective.temperature == 0.5
    lines = [line.split() for line in (folder / "dev.txt").open()]
    found = perplexity(model, build_corpus(lines, vocab=model.bilm.vocab))
    assert found.mean == pytest.approx(min(rows), rel=1e-4)


def test_objective_is_kept_by_the_commands(folder, trained):
    run("convert", trained, folder / "copy", "--precision", "float16")
    found = json.loads(run("perplexity", folder / "copy", folder / "dev.txt", "--json"))
    expected = json.loads(run("perplexity", trained, folder / "dev.txt", "--json"))
    assert found["mean"] == pytest.approx(expected["mean"], rel=1e-2)


def test_format_is_converted_to_and_from(folder, trained):
    run("convert", trained, folder / "npz", "--format", NPZ)
    run("convert", folder / "npz", folder / "back")
    bilm = BiLM.load(trained)
    file = folder / "npz" / "elmo_extension.npz"
    for path in (folder / "npz", file, folder / "back"):
        assert same_layers(BiLM.load(path), bilm)
        assert files.read_config(path) == bilm.config
    assert json.loads(run("info", folder / "npz", "--json"))["fingerprint"] in run(
        "info", folder / "back"
    )
    assert NPZ in run(
        "convert", trained, folder / "x", "--format", "nothing", fails=True
    )
    with pytest.raises(FileNotFoundError, match=rf"EL001.*elmo_extension.npz.*{NPZ}"):
        BiLM.load(folder)


def test_format_is_read_from_a_zip(folder, trained):
    BiLM.load(trained).save(folder / "zipped", format=NPZ)
    path = shutil.make_archive(folder / "model", "zip", folder / "zipped")
    assert same_layers(BiLM.load(path), BiLM.load(trained))


def test_format_takes_no_compressed_arrays(folder, trained):
    """A small file could hold gigabytes of zeros."""
    BiLM.load(trained).save(folder / "packed", format=NPZ)
    file = folder / "packed" / "elmo_extension.npz"
    with np.load(file) as arrays:
        np.savez_compressed(file, **arrays, zeros=np.zeros(1 << 20))
    with pytest.raises(ValueError, match=r"EL002.*compressed"):
        BiLM.load(file)


def test_format_is_read_by_a_pipeline(folder, trained):
    import spacy

    from spacy_elmo import component_config

    BiLM.load(trained).save(folder / "for_spacy", format=NPZ)
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config=component_config(folder / "for_spacy"))
    elmo.load_weights(folder / "for_spacy")
    layers = nlp(" ".join(SENTENCES[0]))._.elmo.layers
    assert abs(layers - BiLM.load(trained).encode(SENTENCES[:1])[0]).max() < 1e-6


@pytest.mark.slow
def test_killed_it_resumes_with_the_same_bits(folder, trained):
    output = folder / "killed"
    process = subprocess.Popen(
        command(folder / "run.cfg", output),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    saved = None  # at first, that of before the first step
    while process.poll() is None and not (saved and saved["step"]):
        time.sleep(0.005)
        saved = checkpoint.read_progress(output)
    process.kill()
    process.wait()
    saved = checkpoint.read_progress(output)["step"]
    assert 0 < saved < 69
    pretrain(read_config(folder / "run.cfg"), output)
    for name in ("weights.safetensors", "softmax.safetensors"):
        found = load_file(output / "model-last" / name)
        expected = load_file(folder / "whole" / "model-last" / name)
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            assert np.array_equal(found[key], array), key


def test_nothing_in_the_package_names_it():
    for path in (ROOT / "spacy_elmo").rglob("*.py"):
        assert "elmo-extension" not in path.read_text(encoding="utf-8")
        assert "elmo_extension" not in path.read_text(encoding="utf-8")
