"""Where a run's figures go."""

import json
import re
import shutil
import sys
from pathlib import Path

import matplotlib
import pytest

from spacy_elmo.files.plots import FORMATS
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loggers import draw_curve, read_log
from spacy_elmo.pretrain.loop import pretrain

from .runs import log, write_config, write_text


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_text(folder)
    pretrain(read_config(write_config(folder)), folder / "out")
    return folder / "out"


def test_log_has_a_line_for_every_interval(finished):
    rows = log(finished)
    assert [row["step"] for row in rows] == [*range(5, 69, 5), 69]
    assert [row["step"] for row in rows if "dev" in row] == [20, 40, 60, 69]
    for row in rows:
        assert row["tokens"] == row["step"] * 24 and row["grad_norm"] > 0
        assert row["tokens_per_second"] > 0 and 0 < row["learn_rate"] <= 0.01


def test_half_a_line_is_not_read(tmp_path):
    path = tmp_path / "log.jsonl"
    row = '{"tokens": 3, "loss": 1.0, "step": '
    path.write_text(f'{row}1}}\n{row}2}}\n{{"ste')
    assert [row["step"] for row in read_log(path)] == [1, 2]
    assert read_log(tmp_path / "none") == []


@pytest.mark.parametrize(
    "line",
    [
        '{"epoch": 1, "message": "mine"}',
        '{"step": 100, "loss": 2.0}',
        '{"step": null, "tokens": 9, "loss": 2.0}',
        '{"step": 1, "tokens": "9", "loss": 2.0}',
        "[]",
        "notes of mine",
        "caf\udce9",  # no UTF-8
        '{"step": 1, "tokens": 9, "loss": 2.0, "dev": 3}',
        f'{{"step": 1{400 * "0"}, "tokens": 9, "loss": 2.0}}',
    ],
)
def test_a_log_of_something_else_is_left_alone(tmp_path, line):
    write_text(tmp_path)
    (tmp_path / "out").mkdir()
    content = f"{line}\n".encode("utf-8", "surrogateescape")
    (tmp_path / "out" / "log.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match="EL121"):
        pretrain(read_config(write_config(tmp_path)), tmp_path / "out")
    assert (tmp_path / "out" / "log.jsonl").read_bytes() == content


def test_says_what_it_will_do(tmp_path, capsys):
    write_text(tmp_path)
    pretrain(read_config(write_config(tmp_path)), tmp_path / "out")
    said = " ".join(capsys.readouterr().out.split())
    assert "352 tokens, vocabulary of 11 words (100.0% of the text)" in said
    assert re.search(r"[\d,]+ parameters in the biLM, 99 in the full softmax", said)
    assert "69 steps of 4 x 6 tokens on 1 x cpu, about 0.4 GB of memory" in said


@pytest.mark.parametrize("name", ["spacy.ConsoleLogger.v2", "spacy.ConsoleLogger.v3"])
def test_spacy_console_logger(tmp_path, capsys, name):
    write_text(tmp_path)
    settings = {"@loggers": name}
    if name.endswith("v3"):
        settings["output_file"] = str(tmp_path / "spacy.jsonl")
    config = write_config(tmp_path, **{"training.logger": settings})
    pretrain(read_config(config), tmp_path / "out")
    out = capsys.readouterr().out
    assert "LOSS ELMO" in out and out.count("\n") > 4
    if name.endswith("v3"):
        rows = [json.loads(line) for line in (tmp_path / "spacy.jsonl").open()]
        ours = [row for row in log(tmp_path / "out") if "dev" in row]
        assert [row["step"] for row in rows] == [row["step"] for row in ours]
        scores = [-row["score"] for row in rows]
        assert scores == pytest.approx([row["dev"]["mean"] for row in ours])


def test_loggers_of_spacy_loggers_are_found(tmp_path):
    """The lookup logger is the one of spacy-loggers that needs no service."""
    write_text(tmp_path)
    config = write_config(
        tmp_path,
        **{
            "training.logger": {"@loggers": "spacy.LookupLogger.v1", "patterns": ["st"]}
        },
    )
    pretrain(read_config(config), tmp_path / "out")
    wandb = {"@loggers": "spacy.WandbLogger.v5", "project_name": "elmo"}
    config = write_config(tmp_path, **{"training.logger": wandb})
    try:
        import wandb as _  # noqa: F401
    except ImportError:
        with pytest.raises(ValueError, match=r"EL037.*wandb"):
            read_config(config)


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_text(tmp_path)
    config = read_config(write_config(tmp_path), {"training.tensorboard": True})
    pretrain(config, tmp_path / "out")
    events = EventAccumulator(str(tmp_path / "out" / "tensorboard"))
    events.Reload()
    ours = [(r["step"], r["dev"]["mean"]) for r in log(tmp_path / "out") if "dev" in r]
    found = [(event.step, event.value) for event in events.Scalars("dev/mean")]
    assert [step for step, _ in found] == [step for step, _ in ours]
    assert [v for _, v in found] == pytest.approx([v for _, v in ours], rel=1e-6)


def test_a_run_that_is_refused_logs_nothing(tmp_path):
    pytest.importorskip("tensorboard")
    write_text(tmp_path)
    settings = {"training.tensorboard": True, "training.max_steps": 2}
    pretrain(read_config(write_config(tmp_path), settings), tmp_path / "out")
    before = sorted((tmp_path / "out").rglob("*"))
    settings["training.max_steps"] = 1
    with pytest.raises(ValueError, match="EL047"):
        pretrain(read_config(write_config(tmp_path), settings), tmp_path / "out")
    assert sorted((tmp_path / "out").rglob("*")) == before


def test_no_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    write_text(tmp_path)
    config = read_config(write_config(tmp_path), {"training.tensorboard": True})
    with pytest.raises(ImportError, match=r"EL049.*pip install tensorboard"):
        pretrain(config, tmp_path / "out")


# What a file of each format begins with.
MAGIC = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


@pytest.mark.parametrize("ending", FORMATS)
def test_curves_are_drawn(finished, tmp_path, ending):
    picture = tmp_path / f"curve{ending}"
    draw_curve([finished, finished], picture)
    data = picture.read_bytes()
    assert data.startswith(MAGIC[ending])
    assert (b"<svg" in data) == (ending == ".svg")


def test_curves_of_other_runs_are_others(finished, tmp_path):
    """As PNG, which holds no time."""
    drawn = []
    for runs in ([finished], [finished], [finished, finished]):
        draw_curve(runs, tmp_path / "curve.png")
        drawn.append((tmp_path / "curve.png").read_bytes())
    assert drawn[0] == drawn[1] != drawn[2]


def test_runs_are_told_apart(finished, tmp_path, monkeypatch):
    def labels(*runs):
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            draw_curve(list(map(Path, runs)), tmp_path / "curve.svg")
        return re.findall(r">([^<>]*out|)</text>", (tmp_path / "curve.svg").read_text())

    shutil.copytree(finished, tmp_path / "other" / "out")
    monkeypatch.chdir(finished)
    assert labels(".") == ["out"]
    assert labels(".", tmp_path / "other" / "out") == [f"{tmp_path}/other/out"]
    monkeypatch.chdir(tmp_path)
    assert labels("other/out") == ["out"]
    assert labels("other/out", finished) == ["other/out", str(finished)]
    (tmp_path / "link to out").symlink_to(finished)
    assert labels("link to out") == ["link to out"]


def test_curve_of_a_short_run(finished, tmp_path):
    """A run of one line is a point, not an empty picture, and the axis says how many
    tokens it has read."""
    first_row = (finished / "log.jsonl").read_text().splitlines()[0]
    (tmp_path / "log.jsonl").write_text(first_row + "\n")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_curve([tmp_path], tmp_path / "curve.svg")
    loss, _ = (tmp_path / "curve.svg").read_text().split('<g id="axes_2">')
    assert re.search(r"<use [^>]*fill: #1f77b4", loss)
    assert ">120<" in loss and "million" not in loss


def test_nothing_to_draw(finished, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"EL074.*log\.jsonl"):
        draw_curve([tmp_path], tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"EL074.*\.png"):
        draw_curve([finished], tmp_path / "a.txt")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"EL075.*plot"):
        draw_curve([finished], tmp_path / "a.png")
