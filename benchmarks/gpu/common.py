"""What the steps of both stages share: models, sentences, tests, and waits."""

import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spacy_elmo.bilm.config import PUBLISHED, BiLMConfig

from ..speed import Sentences, made_up_words
from .runner import Context, Rows

ROOT = Path(__file__).parents[2]
NO_CLIPS = {"cell_clip": None, "proj_clip": None}
TINY = BiLMConfig(hidden_dim=64, projection_dim=32, filters=((1, 16), (3, 48)))
# Sizes of the English model that ships, which has no clips.
SHIPPED = BiLMConfig(
    hidden_dim=512,
    projection_dim=256,
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128)),
    **NO_CLIPS,
)


def configs(context: Context) -> dict[str, BiLMConfig]:
    """Return sizes by name: the published ones, and those of the model that ships."""
    if context.tiny:
        return {"tiny": TINY, "tiny, no clips": without_clips(TINY)}
    return {**PUBLISHED, "en_elmo_sm": SHIPPED}


def without_clips(config: BiLMConfig) -> BiLMConfig:
    """Return the same sizes without clips."""
    return BiLMConfig(**{**config.to_dict(), **NO_CLIPS})


def uneven_sentences(n: int, longest: int = 40, seed: int = 0) -> Sentences:
    """Return sentences of 1 to `longest` words."""
    rng, words = np.random.default_rng(seed), made_up_words(2_000)
    lengths = rng.integers(1, longest + 1, n)
    return [[words[i] for i in rng.integers(0, len(words), k)] for k in lengths]


def run_tests(paths: list[str], context: Context) -> Rows:
    """Run tests that are marked gpu, and return a row for each file."""
    rows: Rows = []
    for path in context.while_time(paths[: 1 if context.tiny else None], share=0.1):
        # A line for each test as soon as it has ended: the last may take too long.
        command = [sys.executable, "-u", "-m", "pytest", "-v", "-m", "gpu"]
        command += ["--tb=short", "-p", "no:cacheprovider", "-rfE", str(ROOT / path)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=False,
                timeout=max(1.0, context.left()),
            )  # fmt: skip
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            said = f"{(error.stdout or b'').decode()}\ntoo long"
        lines = [line for line in said.splitlines() if line.strip()]
        failed = [line for line in lines if re.search(r"^E  |FAILED|ERROR", line)]
        row = {"file": path, "result": " / ".join(lines[-2:]) or "nothing was said"}
        rows.append({**row, "failed": " / ".join(failed)[:3000]})
    return rows


def waits(run: Callable[[], Any], device: str) -> Rows:
    """Return the lines of code at which the host waited for a GPU in a run, and how
    often, as torch's own debugging mode finds them."""
    if device == "cpu":
        run()
        return []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    found = Counter(
        f"{Path(each.filename).name}:{each.lineno}"
        for each in caught
        if "called a synchronizing" in str(each.message)
    )
    return [{"where": where, "times": times} for where, times in found.most_common()]
