"""spaCy's own answer to ELMo: a tok2vec pretrained by `spacy pretrain` on raw text.

It learns to predict the characters of words from their neighbours', and is what the
training of a component begins with. (spaCy can pretrain a component's tok2vec where it
is, but not an entity recogniser's, whose `tok2vec` ends in layers of the parser's own.)
"""

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from confection import Config
from spacy.language import DEFAULT_CONFIG_PATH, DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.training import Example
from spacy.training.pretrain import pretrain
from spacy.util import load_config, load_config_from_str, registry
from tqdm import tqdm

from spacy_elmo.text.reading import read_lines

EPOCHS = 1
BEGIN_WITH = "spacy-elmo.workflows.BeginWith.v1"
TEXT = "spacy-elmo.workflows.Text.v1"
MIN_LENGTH, MAX_LENGTH = 5, 500  # tokens of a line, as in spaCy's own settings


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


@registry.readers(TEXT)
def text_reader(path: str, limit: int) -> Callable[[Language], Iterator[Example]]:
    """Lines of a text file, as `read_lines` reads them. limit: 0 for all."""
    n_lines = sum(1 for _ in islice(read_lines(Path(path)), limit or None))

    def read(nlp: Language) -> Iterator[Example]:
        lines = islice(read_lines(Path(path)), n_lines)
        for line in tqdm(lines, "spacy pretrain", n_lines, unit=" lines", smoothing=0):
            doc = nlp.make_doc(line)
            if MIN_LENGTH <= len(doc) < MAX_LENGTH:
                yield Example(doc, doc)

    return read


def pretrained(
    config: Config, folder: Path, text: Path, n_lines: int = 0, *, gpu: int = -1
) -> Path:
    """RETURNS: the weights; trained once. n_lines: of the text that are read; 0: all.

    Raises as `read_lines`."""
    weights = folder / "model-last.bin"
    if weights.exists():
        return weights
    # spaCy writes a model when it is interrupted, too.
    unfinished = folder / "unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    config = config.copy()
    reader = {"@readers": TEXT, "path": str(text), "limit": n_lines}
    config["corpora"]["pretrain"] = reader
    pretrain(config.interpolate(), unfinished, use_gpu=gpu)
    os.replace(unfinished / weights.name, weights)
    shutil.rmtree(unfinished)
    return weights
