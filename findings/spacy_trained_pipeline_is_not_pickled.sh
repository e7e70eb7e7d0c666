#!/usr/bin/env bash
# spaCy 3.8.14, pickle and joblib 1.6.0 on a pipeline whose `tok2vec` has listeners.
#
# Such a pipeline can be pickled when it was loaded or initialised. After one `nlp.update` it
# can't: the listener keeps the function for the backward pass, which is local to
# `Tok2Vec.update`. Prediction does not remove it. So multiprocessing by spawn, and whatever else
# pickles (`pickle`, `copy.deepcopy` does not), fails right after a training in the same process;
# save the pipeline and load it, or go by `to_bytes`. What is pickled can be mapped read-only by
# joblib (mmap_mode="r"), and then can't predict: thinc's kernels ask for buffers that they may
# write to.
#
# Seen: initialised: pickled, mapped r: ValueError; updated: AttributeError; saved and loaded: pickled
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14" "joblib==1.6.0"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import pickle

import joblib
import spacy
from spacy.training import Example


def pickled(nlp):
    try:
        pickle.dumps(nlp)
        return "pickled"
    except Exception as error:
        return type(error).__name__


def mapped(nlp):
    joblib.dump(nlp, "nlp.joblib")
    try:
        joblib.load("nlp.joblib", mmap_mode="r")("a b")
        return "predicts"
    except Exception as error:
        return type(error).__name__


listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
nlp = spacy.blank("en")
nlp.add_pipe("tok2vec")
nlp.add_pipe("tagger", config={"model": model})
batch = [Example.from_dict(nlp.make_doc("a b"), {"tags": ["X", "Y"]})]
optimizer = nlp.initialize(lambda: batch)
print(f"initialised: {pickled(nlp)}, mapped r: {mapped(nlp)}", end="; ")
nlp.update(batch, sgd=optimizer)
nlp("a b")
print(f"updated: {pickled(nlp)}", end="; ")
nlp.to_disk("nlp")
print(f"saved and loaded: {pickled(spacy.load('nlp'))}")
PY
)
echo "$seen"
test "$seen" = "initialised: pickled, mapped r: ValueError; updated: AttributeError; saved and loaded: pickled"
