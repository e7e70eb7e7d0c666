"""The commands, as a user runs them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from confection import Config
from typer.testing import CliRunner

from experiments.model_page import render
from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import find_library
from spacy_elmo.cli import app

SHIPPED = shipped.FOLDER / shipped.MODELS["en"]

SENTENCE = [["A", "고양이"]]
HALF = ["--precision", "float16"]


def run(*args, fails=False):
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    assert (result.exit_code != 0) is fails, result.output
    return result.output


def test_spacy_lists_the_commands():
    out = subprocess.run(
        [sys.executable, "-m", "spacy", "elmo", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in (
        "pretrain",
        "prepare",
        "perplexity",
        "convert",
        "info",
        "curve",
        "benchmark",
        "models",
        "explore",
    ):
        assert command in out


def test_convert_there_and_back(tiny, tmp_path):
    tiny.save(tmp_path / "own")
    run("convert", tmp_path / "own", tmp_path / "tf", "--format", "bilm-tf")
    run("convert", tmp_path / "tf", tmp_path / "back")
    run("convert", tmp_path / "tf", tmp_path / "half", *HALF)
    to = [tmp_path / "half-tf", "--format", "bilm-tf"]
    assert "EL027" in run("convert", tmp_path / "tf", *to, *HALF, fails=True)
    run(
        "convert",
        tmp_path / "own",
        tmp_path / "x",
        "--format",
        "many-langs",
        fails=True,
    )
    assert not to[0].exists()
    expected = tiny.encode(SENTENCE)[0]
    assert np.array_equal(BiLM.load(tmp_path / "back").encode(SENTENCE)[0], expected)
    assert abs(BiLM.load(tmp_path / "half").encode(SENTENCE)[0] - expected).max() < 0.01


def test_convert_keeps_softmax_and_card(tmp_path):
    run("convert", SHIPPED, tmp_path / "copy", *HALF)
    before = (tmp_path / "copy" / "weights.safetensors").read_bytes()
    assert "EL130" in run("convert", SHIPPED, tmp_path / "copy", fails=True)
    assert (tmp_path / "copy" / "weights.safetensors").read_bytes() == before
    run("convert", SHIPPED, tmp_path / "copy", *HALF, "--force")
    # Vectors of words are no part of the biLM.
    beside = {"README.md", "ATTRIBUTION.md", "WORDS.md", "words.safetensors"}
    names = {path.name for path in SHIPPED.iterdir()} - beside
    assert {path.name for path in (tmp_path / "copy").iterdir()} == names
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat.\n" * 9)
    found = [
        run("perplexity", model, text, "--json")
        for model in (SHIPPED, tmp_path / "copy")
    ]
    assert found[0] == found[1]


def test_info(tiny, tmp_path):
    tiny.save(tmp_path)
    found = json.loads(run("info", tmp_path, "--json"))
    assert found["parameters"] == tiny.n_parameters and found["hidden_dim"] == 12
    assert found == json.loads(run("info", tmp_path / "weights.safetensors", "--json"))
    assert found["format"] == "spacy-elmo"
    assert str(tiny.n_parameters) in run("info", tmp_path)
    section = run("info", tmp_path, "--config")
    assert "[components.elmo.model]" in section and "hidden_dim = 12" in section
    assert "perplexity" in run("info", SHIPPED)


def test_info_names_kernels_and_says_why_they_are_chosen(tiny, tmp_path, monkeypatch):
    tiny.save(tmp_path)
    monkeypatch.delenv("SPACY_ELMO_KERNELS", raising=False)
    info = "info", tmp_path, "--kernels"
    found, library = run(*info), find_library()
    if library is None:
        assert "torch_lstm" in found and "C library: none, " in found
    else:
        assert "native_tokens" in found and "native_lstm" in found
        assert f"C library: {library.instructions}, the best" in found
    assert "autograd_lstm" in found and "char_cnn" in found  # of training
    monkeypatch.setenv("SPACY_ELMO_KERNELS", "instructions=none")
    found = run(*info)
    assert "torch_lstm" in found and "C library: none, forced" in found
    monkeypatch.setenv("SPACY_ELMO_KERNELS", "lstm=torch_lstm")  # not for training
    rows = {line.split()[0]: line for line in run(*info).splitlines() if line.strip()}
    assert "can't" in rows["lstm"]
    assert "can't" not in rows["token_encoder"] + rows["matmul"]
    monkeypatch.delenv("SPACY_ELMO_KERNELS")
    code = (
        "import sys; sys.modules['spacy_elmo.bilm.kernels.native._elmo'] = None\n"
        f"from spacy_elmo.cli import app; app(['info', {str(tmp_path)!r}, '--kernels'])"
    )
    found = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "torch_lstm" in found and "C library: none, not built" in found


def test_prepare_and_perplexity_of_it(tmp_path):
    path, out = tmp_path / "text.txt", tmp_path / "out"
    path.write_text("The cat sat on the mat. It was a good day for all of us.\n" * 5)
    said = run("prepare", path, "--output", out, "--vocab-size", 12)
    assert "85 tokens in 10 sentences" in " ".join(said.split())
    assert "tokens/s" in said
    found = run("perplexity", SHIPPED, out, "--json")
    assert found == run("perplexity", SHIPPED, path, "--json")
    assert json.loads(found)["bits_per_character"] > 0
    assert "EL042" in run("prepare", path, "--output", out, fails=True)
    assert "EL043" in run("perplexity", SHIPPED, out, path, fails=True)


def test_curve(tmp_path):
    log = {"step": 1, "tokens": 9, "loss": 2.0, "dev": {"mean": 9.0}}
    (tmp_path / "log.jsonl").write_text(json.dumps(log) + "\n")
    run("curve", tmp_path, "--output", tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_perplexity(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The cat sat on the mat. It was a good day for all of us.\n" * 5)
    found = json.loads(run("perplexity", SHIPPED, path, "--json"))
    assert 1 < found["forward"] < 500 and found["tokens"] == 85
    assert f"{found['mean']:.2f}" in run("perplexity", SHIPPED, path)


@pytest.mark.parametrize(
    ("code", "args"),
    [
        ("EL001", ["info", "nowhere"]),
        ("EL001", ["convert", "nowhere", "out"]),
        ("EL030", ["perplexity", str(SHIPPED), "nowhere.txt"]),
        ("EL037", ["pretrain", "nowhere.cfg", "--output", "out"]),
    ],
)
def test_errors_are_one_message(code, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run(*args, fails=True)
    assert code in out and "Traceback" not in out
    assert list(tmp_path.iterdir()) == []


def test_interrupt_says_so(tmp_path, monkeypatch):
    import spacy_elmo.pretrain.__main__ as main

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "read_config", interrupted)
    assert "Stopped" in run("pretrain", "a.cfg", "--output", "out", fails=True)


def test_models_that_ship():
    table = run("models")
    cards = json.loads(run("models", "--json"))
    assert list(cards) == list(shipped.MODELS.values())
    for lang, name in shipped.MODELS.items():
        assert name in table
        card = cards[name]
        assert card["lang"] == lang
        bilm = shipped.load(lang)
        assert card["fingerprint"] == bilm.fingerprint()
        assert card["parameters"] == bilm.n_parameters
        for key in ("text", "tokens_seen", "dev_perplexity", "hardware", "command"):
            assert card[key], key
        page = run("models", name)
        assert page.startswith(f"# {name}\n") and card["fingerprint"] in page
        assert page.strip() == page_of(name)[1].strip()
        assert json.loads(run("models", lang, "--json")) == {name: card}
        assert json.loads(run("info", name, "--json"))["fingerprint"] in str(card)
    assert "EL081" in run("models", "sv", fails=True)


def page_of(name):
    """Return front matter and text of a card, as it lies beside the weights."""
    text = (shipped.find(name) / "README.md").read_text(encoding="utf-8")
    nothing, front, page = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    assert nothing == ""
    return yaml.safe_load(front), page


@pytest.mark.parametrize(("lang", "name"), shipped.MODELS.items())
def test_cards_are_pages_of_hubs(lang, name):
    card = json.loads((shipped.find(name) / "card.json").read_text(encoding="utf-8"))
    front, page = page_of(name)
    # Made from the JSON, by the code that ships a model.
    text = (shipped.find(name) / "README.md").read_text(encoding="utf-8")
    assert "".join(render(name, lang, card)) == text
    assert front["language"] == lang and front["license"] == "cc-by-sa-4.0"
    assert front["library_name"] == "spacy-elmo" and "elmo" in front["tags"]
    (model,) = front["model-index"]
    assert model["name"] == name
    for result in model["results"]:
        found = card[f"{result['dataset']['split']}_perplexity"]
        perplexity, bits = (metric["value"] for metric in result["metrics"])
        assert perplexity == pytest.approx(found["mean"], abs=0.005)
        assert bits == pytest.approx(found["bits_per_character"], abs=5e-4)
    (example,) = re.findall(r"```python\n(.+?)```", page, re.DOTALL)
    namespace = {}
    exec(example, namespace)
    assert namespace["nlp"]("a").tensor.shape == (1, 512)


@pytest.mark.parametrize(
    "command",
    [
        ["perplexity", SHIPPED, "text.txt"],
        ["benchmark", SHIPPED, "text.txt", "--rounds", 1],
        ["explore", "word", SHIPPED, "text.txt", "--word", "cat", "-o", "-"],
        ["explore", "sentence", SHIPPED, "The cat", "-o", "-"],
        ["pretrain", "a.cfg", "-o", "out"],
        ["embed", "run", SHIPPED, "text.txt", "-o", "out"],
        ["embed", "verify", "out"],
    ],
    ids=lambda command: " ".join(map(str, command[:2])).partition(" /")[0],
)
def test_gpu_is_named_as_in_spacy(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("The cat sat.\n")
    said = run(*command, "-g", 999, fails=True)
    assert "EL151" in said and "--gpu-id" in said and "Traceback" not in said
    if command[0] not in ("pretrain", "embed"):
        run(*command, "--gpu-id", -1)


def test_short_options_of_spacy(tmp_path):
    path = tmp_path / "ko.cfg"
    path.write_text("mine")
    run("init-config", path, "-l", "ko", "-p", "tagger,ner", "-F")
    config = Config().from_disk(path)
    assert config["nlp"]["lang"] == "ko"
    assert config["nlp"]["pipeline"] == ["elmo", "tagger", "ner"]


def test_a_hyphen_is_standard_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1, "tokens": 9, "loss": 2.0}\n')
    svg = run("curve", tmp_path, "--output", "-")
    assert svg.startswith("<?xml") and svg.rstrip().endswith("</svg>")
    (tmp_path / "text.txt").write_text("The cat sat.\nA cat ran.\n")
    about = "word", SHIPPED, "text.txt", "--word", "cat"
    table = run("explore", *about, "-o", "-", "--format", "table")
    assert table.startswith("**cat** (2 contexts)") and "| --- |" in table
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"log.jsonl", "text.txt"}


def test_a_table_of_neighbours_is_added_to_a_page(tmp_path):
    (tmp_path / "text.txt").write_text("The cat sat.\nA cat ran.\n")
    page = tmp_path / "new" / "page.md"
    ask = ["explore", "word", SHIPPED, tmp_path / "text.txt", "--word", "cat"]
    ask += ["--format", "table", "-o"]
    run(*ask, page)
    once = page.read_text(encoding="utf-8")
    run(*ask, page)
    assert once and page.read_text(encoding="utf-8") == 2 * once
    assert "EL013" in run(*ask, tmp_path, fails=True)


def test_silent(tmp_path, capsys, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat.\n" * 5)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for n, shown in enumerate(([], ["--silent"])):
        app(["perplexity", str(SHIPPED), str(text), *shown], standalone_mode=False)
        assert ("perplexity:" in capsys.readouterr().err) == (not shown)
        prepared = [str(text), "-o", str(tmp_path / f"{n}"), *shown]
        app(["prepare", *prepared], standalone_mode=False)
        said = capsys.readouterr().err
        bars = ("reading text", "counting words", "writing")
        assert [bar in said for bar in bars] == [not shown] * 3
