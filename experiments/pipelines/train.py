"""Train a pipeline as `spacy train` does, with or without ELMo."""

import sys
from pathlib import Path
from typing import Any

from confection import Config
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_pipeline
from spacy.util import load_config, load_model

from . import corpus, numpy_products  # noqa: F401  what configurations name

ENCODE = "spacy-elmo.Encode.v1"
# spaCy's own encoder without ELMo.
WIDTH, DEPTH = 96, 4


def without_elmo(config: Config) -> Config:
    """Return a configuration with hash embeddings and convolutions of spaCy's in the
    place of every encoder that ELMo is in."""
    config = config.copy()
    del config["components"]["elmo"], config["initialize"]["components"]["elmo"]
    config["nlp"]["pipeline"].remove("elmo")
    for component in config["components"].values():
        model = component["model"]
        holder, name = (
            (model, "tok2vec") if "tok2vec" in model else (component, "model")
        )
        if holder[name]["@architectures"] == ENCODE:
            embed, encode = holder[name]["embed"], holder[name]["encode"]
            holder[name] = {
                "@architectures": "spacy.Tok2Vec.v2",
                "embed": {**embed, "width": WIDTH},
                "encode": {**encode, "width": WIDTH, "depth": DEPTH},
            }
    return config


def train(
    config: Path, folder: Path, overrides: dict[str, Any], *, elmo: bool = True
) -> Language:
    """Train a pipeline, and return it as it was best on the development set.

    Args:
        config: File of the configuration.
        folder: For `model-best` and `model-last`.
        overrides: Settings in its place, by their dotted names.
        elmo: Whether ELMo is in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = load_config(config, overrides=overrides, interpolate=False)
    nlp = init_nlp(settings if elmo else without_elmo(settings))
    train_pipeline(nlp, folder, stdout=sys.stdout)
    return load_model(folder / "model-best")
