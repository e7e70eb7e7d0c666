"""What a bare machine with a GPU lacks: spaCy and what it needs, as trimmed wheels.

`make gpu-bundle` runs this module: it downloads wheels for Linux and for the Python of
that machine, in the versions of constraints.txt, takes symbols for debuggers, sources
and tests out of them, compresses them well, and checks that they and the tree are small
enough to be carried there.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PYTHON = "3.12"
# pip matches the number of a platform exactly.
PLATFORMS = [
    "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_24_x86_64",
    "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64",
]  # fmt: skip
# Beside these the machine has torch, Triton, CuPy, NumPy, safetensors, h5py, psutil,
# pytest, hypothesis, and what is common: rich, requests, jinja2, httpx, packaging.
PACKAGES = [
    "annotated-types", "backports.zstd", "blis", "catalogue", "click", "cloudpathlib",
    "confection", "cymem", "murmurhash", "preshed", "pydantic", "pydantic_core",
    "smart_open", "spacy", "spacy-legacy", "spacy-loggers", "srsly", "thinc", "tqdm",
    "typer", "typing-inspection", "typing_extensions", "wasabi", "weasel", "wrapt",
    "annotated-doc", "shellingham",
]  # fmt: skip
# Of the sources, CUDA's are compiled when they are used.
DROPPED = (".pyx", ".pxd", ".pyi", ".c", ".cpp", ".h", ".hpp", "RECORD")
# In bytes, of wheels and tree together.
MOST = 64_000_000
# What no benchmark of a GPU reads, and need not be taken there.
NOT_NEEDED = ("experiments/text/", "spacy_elmo/models/ko_elmo_sm/")
SPACY_ELMO = "spacy_elmo.dist-info"


def build(folder: Path, root: Path) -> int:
    """Write the wheels into a folder; return their bytes and the tree's. Raises
    SystemExit if they are too many."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as downloads:
        _download(Path(downloads), root / "constraints.txt")
        for wheel in sorted(Path(downloads).glob("*.whl")):
            _trim(wheel, folder / wheel.name)
    wheels = sum(wheel.stat().st_size for wheel in folder.glob("*.whl"))
    tree = tree_size(root)
    print(f"{wheels:,} bytes of wheels, {tree:,} of the tree")
    if wheels + tree > MOST:
        raise SystemExit(f"{wheels + tree:,} bytes are more than {MOST:,}")
    return wheels + tree


def tree_size(root: Path) -> int:
    """Return the bytes of the files of a git checkout that are not ignored, without
    those of NOT_NEEDED."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    )
    names = [name for name in found.stdout.split("\0") if name]
    paths = [root / name for name in names if not name.startswith(NOT_NEEDED)]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _download(folder: Path, constraints: Path) -> None:
    pins = dict(
        line.split("==") for line in constraints.read_text().split() if "==" in line
    )
    pins = {name.lower(): version for name, version in pins.items()}
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", PYTHON]
    command += ["--implementation", "cp", "--dest", str(folder)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    command += [f"{name}=={pins[name.lower()]}" for name in PACKAGES]
    subprocess.run(command, check=True)


def _trim(wheel: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
        libraries = [str(path) for path in folder.rglob("*.so*")]
        if libraries:
            subprocess.run(["strip", "--strip-unneeded", *libraries], check=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as packed:
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(folder)
                is_test = "tests" in inside.parts
                if path.is_file() and not is_test and not path.name.endswith(DROPPED):
                    packed.write(path, inside)


def unpack(bundle: Path, site: Path, root: Path) -> None:
    """Unpack wheels into a folder from which Python then imports, and say there what
    spacy_elmo registers, which is not installed on that machine."""
    import tomllib  # Python 3.11 has it, which no machine is below

    for wheel in sorted(bundle.glob("*.whl")):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {at}" for name, at in entries.items())]
    info = site / SPACY_ELMO
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n"
    (info / "METADATA").write_text(head)


if __name__ == "__main__":
    ROOT = Path(__file__).parents[2]
    build(ROOT / ".gpu-bundle", ROOT)
