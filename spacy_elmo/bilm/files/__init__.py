"""Which format a model folder is in. One file a foreign format."""

from pathlib import Path

from ...errors import Errors
from ..bilm import BiLM
from . import bilm_tf, many_langs
from . import own as weights


def load(folder: Path) -> BiLM:
    """Load a biLM in any format known. Raises FileNotFoundError [EL001], ValueError."""
    if (folder / many_langs.ENCODER).exists():
        return many_langs.load(folder)
    if (folder / weights.CONFIG).exists():
        return weights.load(folder)
    if (folder / bilm_tf.OPTIONS).exists():
        return bilm_tf.load(folder)
    raise FileNotFoundError(Errors.EL001.format(path=folder))
