"""A projection to fewer dimensions (PCA), fitted on a sample of the text."""

from itertools import accumulate
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from ..errors import Errors
from ..files import MAX_WORDS, new_checksum, publish, reading
from ..machine import default_settings
from .estimate import SAMPLES, read_sample
from .folder import Workspace
from .model import Encoder
from .plan import Plan

FITTED_TOKENS = 20_000

Projection = tuple[np.ndarray, np.ndarray]  # mean (D,) and axes (D, dimensions)


@default_settings()
def fit_projection(
    plan: Plan, encoder: Encoder, output: Path
) -> tuple[Projection, str, float]:
    """Fit the projection of a plan with an encoder that has none, and write it. Return
    it, the checksum of its file, and the share of the sample's variance it keeps."""
    # A token takes about 6 bytes of text.
    sample = read_sample(plan, 6 * FITTED_TOKENS // min(SAMPLES, plan.n_jobs))
    width = plan.kept.width
    n_tokens = accumulate(map(len, sample.sentences))  # a record may be far longer
    some = [s for s, n in zip(sample.sentences, n_tokens) if n <= 2 * FITTED_TOKENS]
    vectors = [v.reshape(-1, width) for v in encoder(some)]
    rows = np.concatenate(vectors or [np.zeros((1, width))])
    mean = rows.mean(axis=0)
    variances, axes = np.linalg.eigh((rows - mean).T @ (rows - mean))
    n = plan.kept.dimensions or width
    kept = float(variances[::-1][:n].sum() / max(variances.sum(), 1e-30))
    axes = axes[:, ::-1][:, :n]
    # The sign of an axis is arbitrary: its largest element becomes positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n)])
    found = mean.astype(np.float32), np.ascontiguousarray(axes, dtype=np.float32)
    data = save({"mean": found[0], "axes": found[1]})
    checksum = new_checksum(data).hexdigest()
    with Workspace(output) as workspace:
        aside = workspace.folder / "projection"
        aside.write_bytes(data)
        publish(aside, _path(output, checksum), replace=False)
    return found, checksum, kept


def read_projection(output: Path, checksum: str) -> Projection:
    """Return a projection. Raises ValueError [EL202] if its file is damaged."""
    path = _path(output, checksum)
    with reading(path, Errors.EL202, max_bytes=MAX_WORDS):
        data = path.read_bytes()
        if new_checksum(data).hexdigest() != checksum:
            raise ValueError("it was changed")
    arrays = load(data)
    return arrays["mean"], arrays["axes"]


def _path(output: Path, checksum: str) -> Path:
    return output / f"projection-{checksum}.safetensors"
