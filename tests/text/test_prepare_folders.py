"""Where text is prepared: other files there stay, and damaged parts are made again."""

import pytest

from spacy_elmo.text import Request, preparation, prepare
from spacy_elmo.text.preparation import PARTS
from spacy_elmo.text.shards import check_files

PLAIN = Request(tokenizer="whitespace", sentences=False)


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "BLOCK", 200)  # so that there are several parts
    path = tmp_path / "text.txt"
    path.write_text("".join(f"w{n} and w{n % 7} again\n" for n in range(120)))
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "name", ["words.txt", "counts.npy", "00000.forward.npy", "unfinished/draft.txt"]
)
def test_files_of_a_user_are_not_replaced_unasked(text, tmp_path, name):
    out = tmp_path / "out"
    for mine in (out / name, out / "embeddings.npy"):
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.write_text("mine")
    with pytest.raises(ValueError, match="EL042"):
        prepare([text], out, PLAIN, progress=False)
    assert (out / name).read_text() == "mine"
    prepare([text], out, PLAIN, overwrite=True, progress=False)
    assert (out / "embeddings.npy").read_text() == "mine"
    assert check_files(out)


def test_a_source_is_never_replaced(text, tmp_path):
    source = tmp_path / "words.txt"
    text.rename(source)
    before = source.read_bytes()
    for overwrite in (False, True):
        with pytest.raises(ValueError, match="EL042"):
            prepare([source], tmp_path, PLAIN, overwrite=overwrite, progress=False)
    assert source.read_bytes() == before


@pytest.mark.parametrize("spoil", ["cut", "empty", "flipped"])
def test_a_damaged_part_is_made_again(text, tmp_path, monkeypatch, spoil):
    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "reverse_sentences", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare([text], tmp_path / "out", PLAIN, progress=False)
    part = tmp_path / "out" / PARTS / "00003.npz"
    data = bytearray(part.read_bytes())
    data[data.index(b"w1")] ^= 1
    changed = {"cut": data[:100], "empty": b"", "flipped": data}
    part.write_bytes(changed[spoil])
    prepare([text], tmp_path / "out", PLAIN, progress=False)
    prepare([text], tmp_path / "whole", PLAIN, progress=False)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
