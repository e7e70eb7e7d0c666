"""What pyproject.toml says of the project, and where its addresses point to."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
URLS = PROJECT["urls"]

# The same repository, as pages for people and as files.
BLOB, TREE = f"{URLS['Source']}/blob/main/", f"{URLS['Source']}/tree/main/"
RAW = f"{URLS['Source']}/main/".replace("github.com", "raw.githubusercontent.com")
DOCUMENTATION = f"{URLS['Documentation']}/"


def in_repository(link: str) -> Path:
    """Return the file or folder that a link to the project stands for."""
    for start in (BLOB, TREE, RAW):
        if link.startswith(start):
            return ROOT / link.removeprefix(start)
    assert link.startswith(DOCUMENTATION), f"{link} is not below {URLS}"
    page = link.removeprefix(DOCUMENTATION).partition("#")[0]
    return ROOT / "docs" / f"{page.removesuffix('.html')}.md"
