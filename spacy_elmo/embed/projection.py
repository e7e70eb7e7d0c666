"""A projection to fewer dimensions (PCA), fitted on a sample of the text."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from ..errors import Errors
from .checksums import Checksum
from .estimate import SAMPLES, read_sample
from .folder import Workspace, publish_new
from .model import Encoder
from .plan import Plan

FITTED_TOKENS = 20_000


def fit_projection(
    plan: Plan, encoder: Encoder, output: Path
) -> tuple[tuple[np.ndarray, np.ndarray], str, float]:
    """Fit the projection of a plan, and write it.

    Args:
        plan: The plan.
        encoder: One without a projection.
        output: Folder of the plan.

    Returns:
        Mean and axes, the checksum of the file, and the share of the sample's variance
        that is kept.
    """
    # A token takes about 6 bytes of text.
    sample = read_sample(plan, 6 * FITTED_TOKENS // min(SAMPLES, plan.n_jobs))
    width = plan.kept.width
    rows = np.concatenate(
        [
            np.zeros((0, width)),
            *(v.reshape(-1, width) for v in encoder(sample.sentences)),
        ]
    )
    mean = rows.mean(axis=0) if len(rows) else np.zeros(width)
    variances, axes = np.linalg.eigh((rows - mean).T @ (rows - mean))
    n = plan.kept.dimensions or width
    kept = float(variances[::-1][:n].sum() / max(variances.sum(), 1e-30))
    projection = mean.astype(np.float32), _signed(axes[:, ::-1][:, :n])
    data = save({"mean": projection[0], "axes": projection[1]})
    checksum = Checksum(data).hexdigest()
    with Workspace(output) as workspace:
        aside = workspace.folder / "projection"
        aside.write_bytes(data)
        publish_new(aside, _path(output, checksum))
    return projection, checksum, kept


def _signed(axes: np.ndarray) -> np.ndarray:
    """Return axes whose largest element is positive; their sign is arbitrary."""
    largest = np.abs(axes).argmax(axis=0)
    signs = np.sign(axes[largest, np.arange(axes.shape[1])])
    return np.ascontiguousarray(axes * signs, dtype=np.float32)


def read_projection(output: Path, checksum: str) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (D,) and axes (D, dimensions).

    Raises:
        ValueError: [EL202] if the file is missing or damaged.
    """
    path = _path(output, checksum)
    try:
        data = path.read_bytes()
        if Checksum(data).hexdigest() != checksum:
            raise ValueError("it was changed")
    except (OSError, ValueError) as error:
        raise ValueError(Errors.EL202.format(path=path, problem=error)) from error
    arrays = load(data)
    return arrays["mean"], arrays["axes"]


def _path(output: Path, checksum: str) -> Path:
    return output / f"projection-{checksum}.safetensors"
