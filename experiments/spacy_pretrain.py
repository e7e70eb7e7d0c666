"""spaCy's own answer to ELMo: a tok2vec pretrained by `spacy pretrain` on raw text.

It learns to predict the characters of words from their neighbours', and is what the
training of a component begins with. (spaCy can pretrain a component's tok2vec where it
is, but not an entity recogniser's, whose `tok2vec` ends in layers of the parser's own.)
"""

import os
import shutil
from pathlib import Path
from typing import Any

from confection import Config
from spacy.language import DEFAULT_CONFIG_PATH, DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.training.pretrain import pretrain
from spacy.util import load_config, load_config_from_str

from spacy_elmo.text import read_lines

MIN_LENGTH, MAX_LENGTH = 5, 499  # tokens of a line that is read


def pretraining(config: str, component: str) -> Config:
    """Return a configuration that pretrains the tok2vec of one component for an epoch,
    by itself."""
    given = load_config_from_str(config, interpolate=False)
    tok2vec = given["components"][component]["model"]["tok2vec"]
    own = {
        "nlp": {**given["nlp"], "pipeline": ["tok2vec"]},
        "components": {"tok2vec": {"factory": "tok2vec", "model": tok2vec}},
    }
    whole = load_config(DEFAULT_CONFIG_PATH, interpolate=False)
    whole = whole.merge(load_config(DEFAULT_CONFIG_PRETRAIN_PATH)).merge(own)
    # The last epoch is saved whatever its number is.
    whole["pretraining"].update({"component": "tok2vec", "max_epochs": 1})
    return Config(whole)


def pretrained(config: Config, folder: Path, text: Path, *, gpu: int = -1) -> Path:
    """Train once, and return the file with the weights. Raises as `read_lines`."""
    weights = folder / "model-last.bin"
    if weights.exists():
        return weights
    # spaCy writes a model when it is interrupted, too.
    unfinished = folder / "unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    lines = unfinished / "text.txt"
    with lines.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in read_lines(text))
    config = config.copy()
    config["corpora"]["pretrain"] = {
        "@readers": "spacy.PlainTextCorpus.v1",
        "path": str(lines),
        "min_length": MIN_LENGTH,
        "max_length": MAX_LENGTH,
    }
    pretrain(config.interpolate(), unfinished, use_gpu=gpu)
    os.replace(unfinished / weights.name, weights)
    shutil.rmtree(unfinished)
    return weights


def begin_with(nlp: Language, component: str, weights: Path) -> None:
    """Put what was pretrained into the tok2vec of a component."""
    pipe: Any = nlp.get_pipe(component)
    tok2vec = next(node for node in pipe.model.walk() if node.has_ref("embed"))
    tok2vec.from_bytes(weights.read_bytes())
