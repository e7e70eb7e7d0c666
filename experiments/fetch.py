"""Put the project's assets in place, each checked by its SHA-256.

An asset comes from a local folder if it is there, else from its public source. Nothing
that does not have the expected hash is kept.
"""

import shutil
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import srsly
import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.atomic_files import sha256, write_files
from spacy_elmo.errors import Errors

PROJECT, HASHES = Path("project.yml"), Path("assets/SHA256SUMS")
TIMEOUT = 60  # seconds without an answer


def find_local(data: Path | None, name: str) -> Path | None:
    """A file of a name anywhere below the local folder's eval/ and lm/."""
    for part in ("eval", "lm") if data else ():
        for path in sorted((data / part).glob(f"**/{name}")):  # type: ignore[operator]
            return path
    return None


def fetch(
    assets: list[dict[str, Any]], hashes: dict[str, str], data: Path | None
) -> None:
    """Raises FileNotFoundError [EL070] if an asset is nowhere to be had, ValueError
    [EL071] on a wrong hash and [EL072] if there is no connection, OSError [EL013]."""
    for asset in tqdm(assets, desc="assets", leave=False):
        target = Path(asset["dest"])
        expected = hashes[target.name]
        if target.exists() and sha256(target) == expected:
            continue
        source = find_local(data, target.name) or asset.get("url")
        if not source:
            raise FileNotFoundError(
                Errors.EL070.format(
                    name=target, description=asset.get("description", "")
                )
            )
        write = partial(copy_checked, source, expected)
        write_files(target.parent, {target.name: write})
    msg.good(f"{len(assets)} assets in place")


def copy_checked(source: Path | str, expected: str, aside: Path) -> None:
    """Copy a file or download an address. Raises ValueError [EL071, EL072]."""
    if isinstance(source, Path):
        shutil.copyfile(source, aside)
    else:
        try:
            response = urllib.request.urlopen(source, timeout=TIMEOUT)
        except urllib.error.URLError as error:
            raise ValueError(Errors.EL072.format(url=source, error=error)) from error
        with response, aside.open("wb") as file:
            shutil.copyfileobj(response, file)
    found = sha256(aside)
    if found != expected:
        raise ValueError(
            Errors.EL071.format(source=source, found=found, expected=expected)
        )


def read_hashes(path: Path = HASHES) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def main(
    names: list[str] = typer.Argument(None, help="How names begin; all if none"),
    data: str = typer.Option(
        "", help="Local folder with eval/ and lm/, if there is one"
    ),
) -> None:
    try:
        assets = [
            asset
            for asset in srsly.read_yaml(PROJECT)["assets"]
            if not names or Path(asset["dest"]).name.startswith(tuple(names))
        ]
        fetch(assets, read_hashes(), Path(data) if data else None)
    except (OSError, ValueError) as error:
        msg.fail(str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
