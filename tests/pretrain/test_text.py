import gzip
import lzma

import pytest

from spacy_elmo.pretrain.text import read_lines, read_sentences


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_of_tokens(tmp_path):
    path = write(
        tmp_path / "a.txt", "\n  A cat sat. It didn't sleep!  \n\n\t\n둘째 줄\n"
    )
    assert list(read_sentences([path], lang="en")) == [
        ["A", "cat", "sat", "."],
        ["It", "did", "n't", "sleep", "!"],
        ["둘째", "줄"],
    ]
    whole = list(read_sentences([path, path], lang="xx", split_sentences=False))
    assert len(whole) == 4 and whole[0][:3] == ["A", "cat", "sat"]


@pytest.mark.parametrize("module", [gzip, lzma])
def test_packed_files(tmp_path, module):
    path = tmp_path / ("a.gz" if module is gzip else "a.xz")
    path.write_bytes(module.compress("가나 다\n\n라\n".encode()))
    assert list(read_lines(path)) == ["가나 다", "라"]
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(OSError, match="EL030"):
        list(read_lines(path))
    path.write_bytes(module.compress(b"word " * 9999)[:-12] + b"damaged file")
    with pytest.raises(OSError, match="EL030"):
        list(read_lines(path))


def test_bad_files(tmp_path):
    with pytest.raises(OSError, match="EL030"):
        list(read_lines(tmp_path / "missing.txt"))
    path = tmp_path / "latin.txt"
    path.write_bytes("one\ntwo\ncafé\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"EL031.*iconv"):
        list(read_lines(path))
    with pytest.raises(ValueError, match="EL032"):
        list(read_sentences([path], lang="qq"))
