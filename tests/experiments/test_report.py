"""Tables of scores."""

from collections import defaultdict

import pytest

from experiments import figures, report
from experiments.scores import Speed
from experiments.table import read_table
from spacy_elmo.cli.group import markdown_table


def test_cells_of_tables():
    assert report.cell([]) == ""
    assert report.cell([0.5]) == "50.00 (1 seed)"
    assert report.cell([0.5, 0.6, 0.7]) == "60.00 ± 10.00"


@pytest.mark.parametrize(
    ("baseline", "other", "said"),
    [
        ([0.9, 0.9], [0.95], "+50.0%"),
        ([0.9], [0.88], "-20.0%"),
        ([0.7, 0.8], [0.79, 0.8], "+18.0% (no more than seeds differ)"),
        ([0.7], [], ""),
    ],
)
def test_errors_saved(baseline, other, said):
    assert report.errors_saved(baseline, other) == said


def test_tables_show_what_was_run():
    found = defaultdict(list)
    for setup, score in (("baseline", 0.8), ("elmo", 0.9), ("elmo 10%", 0.7)):
        found["wnut17", setup].append({"score": score, "seconds": 60})
    header, row = report.main_table(found, ["wnut17"])
    assert header == ["", "without ELMo", "with ELMo", "error reduction"]
    assert row[2:] == ["90.00 (1 seed)", "+50.0%"]
    found["wnut17", "spacy pretrain"].append({"score": 0.75, "seconds": 60})
    header, row = report.main_table(found, ["wnut17"])
    assert header[2] == "spacy pretrain" and row[3] == "-25.0%"
    header, row = report.shares_table(found, ["wnut17"])
    assert header[3] == "10 %" and row[0] == "wnut17, elmo"
    assert row[1:] == ("", "", "70.00 (1 seed)", "", "90.00 (1 seed)")
    assert len(report.setups_table(found, ["wnut17"], ["elmo", "top"])) == 1
    found["wnut17", "top"] += [{"score": 0.5, "seconds": s} for s in (90, 180)]
    rows = report.setups_table(found, ["wnut17"], ["elmo", "top"])
    assert rows[0] == ("", "wnut17", "minutes")
    assert rows[2] == ("top layer alone", "50.00 ± 0.00", "2.2")
    speeds = {"top": Speed(words=2345.6, megabytes=31.24)}
    rows = report.setups_table(found, ["wnut17"], ["elmo", "top"], speeds)
    assert rows[0][2:] == ("minutes", "words/s", "MB")
    assert rows[1][2:] == ("1.0", "", "")
    assert rows[2][2:] == ("2.2", "2,346", "31.2")


def test_minutes_are_of_one_task():
    found = defaultdict(list)
    found["a", "top"] = [{"score": 0.5, "seconds": 60}]
    found["b", "top"] = [{"score": 0.5, "seconds": 600}]
    _, row = report.setups_table(found, ["a", "b"], ["elmo", "top"])
    assert row[-1] == "1.0"


def test_tasks_that_no_setup_of_the_main_table_has_are_left_out():
    """Of other experiments than `main`."""
    found = defaultdict(list)
    found["wnut17", "top"].append({"score": 0.5, "seconds": 60})
    assert report.main_table(found, ["wnut17"]) == []
    found["ewt-ner", "elmo"].append({"score": 0.5, "seconds": 60})
    _, *rows = report.main_table(found, ["ewt-ner", "wnut17"])
    assert [row[0] for row in rows] == ["ewt-ner, ents_f"]


def test_every_setup_is_in_a_table():
    table = read_table()
    shown = set(report.MAIN).union(*table["tables"].values())
    assert {name for name in table["setups"] if not name.endswith("%")} <= shown


def test_updates_until_the_baselines_best():
    history = [
        {"step": n, "score": s} for n, s in ((100, 0.4), (2000, 0.6), (4000, 0.5))
    ]
    better = [{**row, "score": s} for row, s in zip(history, (0.7, 0.8, 0.9))]
    worse = [{**row, "score": 0.1} for row in history]
    found = defaultdict(list)
    for seed, other in ((1, better), (2, worse)):
        found["a", "baseline"].append({"seed": seed, "history": history})
        found["a", "elmo"].append({"seed": seed, "history": other})
    _, row = report.reaching_table(found, ["a", "b"])
    assert row == ("a", "2,000, 2,000", "100, -")


def test_markdown():
    rows = [("a", "b"), ("x|y", "")]
    assert markdown_table(rows) == "| a | b |\n| --- | --- |\n| x\\|y |  |\n"


def test_the_picture_of_learning_shows_the_best_of_both(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    steps = [*range(0, 2100, 100)]
    found = defaultdict(list)
    for setup, best in (("baseline", 0.6), ("elmo", 0.9)):
        history = [{"step": n, "score": best * n / 2000} for n in steps]
        found["wnut17", setup].append({"history": history})
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, output: drawn.append(figure))
    assert figures.draw_learning(found, ["wnut17"], tmp_path, tmp_path / "a.png")
    bottom, top = drawn[0].axes[0].get_ylim()
    assert bottom == pytest.approx(15) and top >= 90
