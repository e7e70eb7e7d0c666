#!/usr/bin/env bash
# spaCy 3.8.14, a `tok2vec` with listeners, and a listening component that is excluded from the update.
#
# Every listener adds its gradient, and the one that is last in the pipeline runs the backward
# pass for all. If that one is excluded, as `[training] frozen_components` excludes it, the
# backward pass is never run: the shared `tok2vec` learns nothing, though another listener
# trains, and nothing is said. Any other listener can be excluded without this.
#
# Seen: tok2vec learns: all True, without the first True, without the last False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import spacy
from spacy.training import Example


def learns(frozen):
    spacy.util.fix_random_seed(0)
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("tagger", config={"model": model})
    nlp.add_pipe("morphologizer", config={"model": model})
    gold = {"tags": ["A", "B", "C"], "pos": ["NOUN", "VERB", "X"]}
    examples = [Example.from_dict(nlp.make_doc("a b c"), gold)]
    optimizer = nlp.initialize(lambda: examples)
    before = nlp.get_pipe("tok2vec").model.to_bytes()
    for _ in range(3):
        nlp.update(examples, sgd=False, exclude=frozen)
        for name, pipe in nlp.pipeline:
            if name not in frozen:
                pipe.finish_update(optimizer)
    return nlp.get_pipe("tok2vec").model.to_bytes() != before


print(f"tok2vec learns: all {learns([])}, without the first {learns(['tagger'])}, "
      f"without the last {learns(['morphologizer'])}")
PY
)
echo "$seen"
test "$seen" = "tok2vec learns: all True, without the first True, without the last False"
