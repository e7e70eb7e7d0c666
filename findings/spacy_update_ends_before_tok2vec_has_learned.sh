#!/usr/bin/env bash
# spaCy 3.8.14, `nlp.update(examples, sgd=optimizer)`.
#
# Components are updated and finished one after the other. A shared `tok2vec` comes first,
# so its step is made before the components that listen have given it a gradient. The
# gradient of a batch counts at the next update, and that of the last batch never: it is in
# no prediction and in no saved pipeline. `spacy train` accumulates first and finishes all
# components afterwards, and does not lose it. In a loop of your own do the same, or call
# `finish_update` of the tok2vec once more.
#
# Seen: the last update is not in the pipeline: True; finish_update moves it: True
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


def trained(in_two_steps):
    spacy.util.fix_random_seed(0)
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": model})
    examples = [Example.from_dict(nlp.make_doc("a b c"), {"tags": ["A", "B", "C"]})]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(4):
        nlp.update(examples, sgd=False if in_two_steps else optimizer)
        if in_two_steps:  # as `spacy train`
            for _, pipe in nlp.pipeline:
                pipe.finish_update(optimizer)
    return nlp, optimizer


def vectors(nlp):
    return nlp("a b c").tensor.copy()


(nlp, optimizer), (complete, _) = trained(False), trained(True)
before = vectors(nlp)
lost = not np.allclose(before, vectors(complete))
nlp.get_pipe("tok2vec").finish_update(optimizer)
moved = not np.allclose(before, vectors(nlp))
print(f"the last update is not in the pipeline: {lost}; finish_update moves it: {moved}")
PY
)
echo "$seen"
test "$seen" = "the last update is not in the pipeline: True; finish_update moves it: True"
