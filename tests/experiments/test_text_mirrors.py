"""Mirrors of git repositories: found, listed, read."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from experiments.text import mirrors
from experiments.text.source import Blob, Repository, Source, Wheel


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_repository(folder: Path, files: dict[str, str]) -> str:
    """A repository with one more commit; the commit."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "more")
    return git(folder, "rev-parse", "HEAD")


def test_missing_mirror_is_named_with_the_command(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        mirrors.find_mirror(tmp_path, "someone/something")
    assert (
        "git clone --mirror https://github.com/someone/something "
        f"{tmp_path}/someone/something.git" in str(error.value)
    )


@pytest.mark.parametrize(
    "place", ["b", "b.git", "a/b.git", "a+b", "a+b/repo", "a/b/repo"]
)
def test_where_mirrors_may_lie(tmp_path, place):
    make_repository(tmp_path / "made", {"x.txt": "x"})
    folder = tmp_path / "mirrors"
    (folder / place).parent.mkdir(parents=True)
    git(tmp_path, "clone", "-q", "--mirror", "made", str(folder / place))
    assert mirrors.find_mirror(folder, "a/b") == folder / place


def test_candidates_and_blobs(tmp_path, monkeypatch):
    monkeypatch.setattr(mirrors, "MAX_BYTES", 100)
    files = {
        "t/ä.txt": "eins",
        "t/b.txt": "zwei",
        "u/c.txt": "drei",
        "t/d.txt": "x" * 101,
    }
    first = make_repository(tmp_path, files)
    second = make_repository(tmp_path, {"t/b.txt": "zwei mehr"})
    mirror = tmp_path / ".git"
    found = mirrors.candidates(Repository("a/b", first, r"^t/"), mirror)
    assert [path for _, path in found] == ["t/b.txt", "t/ä.txt"]
    assert list(mirrors.read_blobs(mirror, [blob for blob, _ in found])) == [
        b"zwei",
        b"eins",
    ]
    both = Repository("a/b", second, r"^t/", history=True)
    assert [path for _, path in mirrors.candidates(both, mirror)] == [
        "t/b.txt",
        "t/b.txt",
        "t/ä.txt",
    ]


def test_a_missing_blob_is_named(tmp_path):
    make_repository(tmp_path, {"a": "a"})
    with pytest.raises(LookupError, match="f" * 40):
        list(mirrors.read_blobs(tmp_path / ".git", ["f" * 40]))


def test_a_missing_commit_is_named(tmp_path):
    make_repository(tmp_path, {"a": "a"})
    with pytest.raises(LookupError, match="f" * 40):
        mirrors.candidates(Repository("a/b", "f" * 40, "a"), tmp_path / ".git")


def test_list_as_it_was_written(tmp_path):
    files = {"a/b": [("0" * 40, "a name.txt"), ("1" * 40, "b")], "c/d": []}
    mirrors.write_list(tmp_path / "l.xz", files)
    assert mirrors.read_list(tmp_path / "l.xz") == files


def test_a_file_of_a_wheel(tmp_path):
    path = tmp_path / "some-1.0.whl"
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("some/data.txt", "eins")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    wheel = Wheel("some", "1.0", path.name, digest, "some/data.txt")
    source = Source("s", "modern", "CC0 1.0", "made up", "novels", (), wheel=wheel)
    found = list(mirrors.listed_blobs(source, tmp_path))
    assert found == [Blob("some", "some/data.txt", b"eins")]


def test_another_or_no_wheel_is_told(tmp_path):
    wheel = Wheel("some", "1.0", "some-1.0.whl", "0" * 64, "some/data.txt")
    with pytest.raises(FileNotFoundError, match=r"pip download .* some==1\.0"):
        mirrors.read_wheel(wheel, tmp_path)
    (tmp_path / "some-1.0.whl").write_bytes(b"something else")
    with pytest.raises(ValueError, match="SHA-256"):
        mirrors.read_wheel(wheel, tmp_path)
