"""Writing several files of a folder at once, and what a killed process leaves."""

import json
import os
import threading

import pytest

from spacy_elmo.files import recover, write_file, write_files


def write(path, text="new"):
    write_files(path, {"a": lambda p: p.write_text(text)})


def test_recover_leaves_the_hidden_files_of_a_user(tmp_path):
    kept = [".notes.new", ".b.back", ".draft.1234.new", ".x.ABCDEF12.back"]
    for name in kept:
        (tmp_path / name).write_text("mine")
    for name in (".unfinished.chapters", ".previous.chapters"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one").write_text("mine")
    write(tmp_path)
    recover(tmp_path)
    for name in kept:
        assert (tmp_path / name).read_text() == "mine"
    for name in (".unfinished.chapters", ".previous.chapters"):
        assert (tmp_path / name / "one").read_text() == "mine"


def test_recover_removes_what_was_written_aside(tmp_path):
    for name in (".a.0123abcd.new", ".a.0123abcd.back"):
        (tmp_path / name).write_text("")
    (tmp_path / ".unfinished.0123abcd").mkdir()
    recover(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_recover_puts_back_what_a_journal_holds(tmp_path):
    write(tmp_path, "half of the new model")
    journal = tmp_path / ".previous.0123abcd"
    journal.mkdir()
    (journal / "a").write_text("old")
    (journal / "names.json").write_text(json.dumps(["a", "b"]))
    (tmp_path / "b").write_text("was not there before")
    recover(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


@pytest.mark.parametrize(
    "names",
    [
        '["../outside"]',
        '["a", "../outside"]',
        '["{path}"]',
        '["sub/../../outside"]',
        '["..\\\\outside"]',
        '["."]',
        "[3]",
        '{"a": 1}',
        "{",
    ],
)
@pytest.mark.parametrize("act", [recover, write], ids=["recover", "write"])
def test_journals_of_strangers_reach_no_other_folder(tmp_path, names, act):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    journal = folder / ".previous.0123abcd"
    journal.mkdir(parents=True)
    outside.write_text("mine")
    (folder / "outside").write_text("evil")
    (journal / "a").write_text("old")
    (journal / "names.json").write_text(names.replace("{path}", str(outside)))
    with pytest.raises(OSError, match=r"^\[EL013\].*names.json"):
        act(folder)
    assert outside.read_text() == "mine" and not (folder / "a").exists()


def test_recover_of_no_folder(tmp_path):
    recover(tmp_path / "none")


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    write_file(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert list(real.parent.iterdir()) == [real]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_written_into(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "whole\n")
    reader.join(timeout=10)
    assert found == ["whole\n"] and pipe.is_fifo()


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OSError, match="EL013"):
        write_file(tmp_path, "text")


def test_a_file_that_can_not_take_its_place_stays_where_it_is(tmp_path):
    """A text that took hours to prepare, for instance."""
    made, folder = tmp_path / "made", tmp_path / "folder"
    made.write_text("new")
    (folder / "a" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="EL013"):
        write_files(folder, {"a": made, "b": "written here"})
    assert made.read_text() == "new"
    assert [path.name for path in folder.iterdir()] == ["a"]
