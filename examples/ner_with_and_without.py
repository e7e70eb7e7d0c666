"""An entity recogniser with ELMo and without, on the same data, in as many updates.

    python examples/ner_with_and_without.py

The demo corpus is split by topic: what is tested on is of topics not trained on.
"""

import argparse

import spacy
from corpora import DEMO, read, train

# A listener beside hash embeddings, under one wide layer; ELMo knows the context.
WITH_ELMO = """
[model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 64
maxout_pieces = 2
use_upper = true
nO = null

[model.tok2vec]
@architectures = "spacy-elmo.Encode.v1"
at = "input"
width = 96

[model.tok2vec.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = 96
attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
rows = [2000, 1000, 1000, 1000]
include_static_vectors = false

[model.tok2vec.encode]
@architectures = "spacy.MaxoutWindowEncoder.v2"
width = 96
depth = 1
window_size = 1
maxout_pieces = 3

[model.tok2vec.elmo]
@architectures = "spacy-elmo.ElmoListener.v1"
layer_norm = true
"""


def pipeline(with_elmo):
    """Return a pipeline that is not trained yet."""
    nlp = spacy.blank("en")
    if not with_elmo:
        nlp.add_pipe("ner")  # spaCy's own: hash embeddings and four layers
        return nlp
    elmo = nlp.add_pipe("elmo")
    elmo.use_layer_cache("memory")  # only the first epoch computes layers
    config = spacy.util.load_config_from_str(WITH_ELMO, interpolate=False)
    nlp.add_pipe("ner", config=config)
    return nlp


def main(updates: int) -> None:
    for with_elmo in (False, True):
        nlp = pipeline(with_elmo)
        examples = read(nlp, *sorted((DEMO / "train").glob("*.iob")))
        train(nlp, examples, updates)
        scores = nlp.evaluate(read(nlp, *sorted((DEMO / "test").glob("*.iob"))))
        name = "with ELMo" if with_elmo else "without"
        print(f"{name:10} F1 {100 * scores['ents_f']:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=100)
    main(parser.parse_args().updates)
