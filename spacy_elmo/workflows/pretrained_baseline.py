"""spaCy's own answer to ELMo: a tok2vec pretrained by `spacy pretrain` on raw text.

It learns to predict the characters of words from their neighbours', once for every
component, since a tok2vec is not shared between configurations.
"""

import os
import shutil
from itertools import islice
from pathlib import Path

import srsly
from confection import Config
from spacy.language import DEFAULT_CONFIG_PRETRAIN_PATH
from spacy.training.pretrain import pretrain
from spacy.util import load_config, load_config_from_str
from tqdm import tqdm

from ..pretrain.text import read_lines

EPOCHS = 1


def with_pretraining(config: str, component: str) -> Config:
    """A training configuration with what it takes to pretrain a component's tok2vec."""
    own = load_config_from_str(config, interpolate=False)
    own.pop("pretraining", None)
    whole = load_config(DEFAULT_CONFIG_PRETRAIN_PATH, interpolate=False).merge(own)
    # The last epoch is saved whatever its number is.
    settings = {"component": component, "layer": "tok2vec", "max_epochs": EPOCHS}
    whole["pretraining"].update(settings)
    return whole


def pretrained(
    config: Config, folder: Path, text: Path, n_lines: int, *, gpu: int = -1
) -> Path:
    """RETURNS: the weights; trained once. n_lines: of the text that are read."""
    weights = folder / "model-last.bin"
    if weights.exists():
        return weights
    # spaCy writes a model when it is interrupted, too.
    unfinished = folder / "unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    lines = folder / "text.jsonl"
    srsly.write_jsonl(lines, ({"text": t} for t in islice(read_lines(text), n_lines)))
    config = config.copy()
    config["paths"]["raw_text"] = str(lines)
    with tqdm(desc="spacy pretrain", bar_format="{desc} ... {elapsed}"):
        pretrain(config.interpolate(), unfinished, use_gpu=gpu, silent=False)
    os.replace(unfinished / weights.name, weights)
    shutil.rmtree(unfinished)
    lines.unlink()
    return weights
