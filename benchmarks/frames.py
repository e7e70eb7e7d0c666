"""How much of the package a sentence goes through: the files of ours that a warm
`nlp(text)` enters, the functions, and how deep they call each other.

    python -m benchmarks.frames [--functions]

A reader who follows a sentence has to open these files. Python's profiler counts: every
function, generator and comprehension of the package is one frame.
"""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import spacy
import typer

import spacy_elmo

PACKAGE = Path(spacy_elmo.__file__).parent
TEXT = "The cat sat on the mat. It saw a dog."
# What one reader can follow: at most so many files, and so deep.
FILES, DEPTH = 16, 12


class Road(NamedTuple):
    """What a call enters."""

    functions: list[tuple[str, str]]  # file and name of each, in the order of entering
    deepest: list[tuple[str, str]]  # the longest chain of calls
    calls: int

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they are entered."""
        return list(dict.fromkeys(file for file, _ in self.functions))


def follow(call: Any, *args: Any) -> Road:
    """Return what a call enters of the package."""
    chain: list[tuple[str, str]] = []
    functions: dict[tuple[str, str], int] = {}
    deepest: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest
        path = frame.f_code.co_filename
        if event not in ("call", "return") or not path.startswith(str(PACKAGE)):
            return
        if event == "return":
            chain.pop()
            return
        function = os.path.relpath(path, PACKAGE), frame.f_code.co_qualname
        functions[function] = functions.get(function, 0) + 1
        chain.append(function)
        if len(chain) > len(deepest):
            deepest = list(chain)

    sys.setprofile(profile)
    try:
        call(*args)
    finally:
        sys.setprofile(None)
    return Road(list(functions), deepest, sum(functions.values()))


def warm_pipeline() -> spacy.Language:
    """Return a pipeline with an elmo component that has read the text."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo")
    for _ in range(2):
        nlp(TEXT)
    return nlp


def main(functions: bool = typer.Option(False, help="Name every function")) -> None:
    """Print the road of a warm nlp(text), and fail if it is longer than it may be."""
    road = follow(warm_pipeline(), TEXT)
    for file in road.files:
        names = [name for where, name in road.functions if where == file]
        print(f"{len(names):3} {file}")
        for name in names if functions else ():
            print(f"      {name}")
    print("\nThe deepest calls:")
    for depth, (file, name) in enumerate(road.deepest, start=1):
        print(f"{depth:3} {file}: {name}")
    n_files, depth = len(road.files), len(road.deepest)
    counts = f"{n_files} files, {len(road.functions)} functions, {road.calls} calls"
    print(f"\n{counts}, {depth} deep (at most {FILES} files, {DEPTH} deep)")
    raise typer.Exit(int(n_files > FILES or depth > DEPTH))


if __name__ == "__main__":
    typer.run(main)
