"""spaCy's own answer to ELMo: a tok2vec pretrained by `spacy pretrain` on raw text.

It learns to predict the characters of words from their neighbours', and is what the
training of a component begins with. (spaCy can pretrain a component's tok2vec where it
is, but not an entity recogniser's, whose `tok2vec` ends in layers of the parser's own.)
"""

import os
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import srsly
from confection import Config
from spacy.language import DEFAULT_CONFIG_PATH, DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.training.pretrain import pretrain
from spacy.util import load_config, load_config_from_str, registry
from tqdm import tqdm

from ..pretrain.text import read_lines

EPOCHS = 1
BEGIN_WITH = "spacy-elmo.workflows.BeginWith.v1"


def pretraining(config: str, component: str) -> Config:
    """A configuration that pretrains the tok2vec of one component, by itself."""
    given = load_config_from_str(config, interpolate=False)
    tok2vec = given["components"][component]["model"]["tok2vec"]
    own = {
        "nlp": {**given["nlp"], "pipeline": ["tok2vec"]},
        "components": {"tok2vec": {"factory": "tok2vec", "model": tok2vec}},
    }
    whole = load_config(DEFAULT_CONFIG_PATH, interpolate=False)
    whole = whole.merge(load_config(DEFAULT_CONFIG_PRETRAIN_PATH)).merge(own)
    # The last epoch is saved whatever its number is.
    whole["pretraining"].update({"component": "tok2vec", "max_epochs": EPOCHS})
    return Config(whole)


@registry.callbacks(BEGIN_WITH)
def begin_with(component: str, weights: Path) -> Callable[[Language], None]:
    """For `initialize.after_init`: what was pretrained is the component's tok2vec."""

    def begin(nlp: Language) -> None:
        pipe: Any = nlp.get_pipe(component)
        tok2vec = next(node for node in pipe.model.walk() if node.has_ref("embed"))
        tok2vec.from_bytes(Path(weights).read_bytes())

    return begin


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
