#!/usr/bin/env bash
# spaCy 3.8.14, `replace_listeners` in a pipeline whose component was sourced.
#
# A sourced component is the same object in both pipelines, but each has a configuration of its
# own. `replace_listeners` rebuilds the model of that object, and writes into the configuration of
# the pipeline that it is called on. The other pipeline now has a model that its configuration
# does not describe: it predicts as before, and is saved without a warning, but can't be loaded.
# Replace listeners in the pipeline that is sourced from, or source from one loaded for that.
#
# Seen: same predictions; loads: the second pipeline; does not load: the first (mismatched structure)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import spacy
from spacy.training import Example

listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
first = spacy.blank("en")
first.add_pipe("tok2vec")
first.add_pipe("tagger", config={"model": model})
batch = [Example.from_dict(first.make_doc("a b"), {"tags": ["X", "Y"]})]
first.initialize(lambda: batch)
scores = first.get_pipe("tagger").predict([first.get_pipe("tok2vec")(first.make_doc("a b"))])

second = spacy.blank("en")
for name in first.pipe_names:
    second.add_pipe(name, source=first)
second.replace_listeners("tok2vec", "tagger", ["model.tok2vec"])
after = first.get_pipe("tagger").predict([first.make_doc("a b")])
print("same predictions" if (scores[0] == after[0]).all() else "other predictions", end="; ")
for name, nlp in (("second", second), ("first", first)):
    nlp.to_disk(name)
    try:
        spacy.load(name)
        print(f"loads: the {name} pipeline", end="; ")
    except ValueError as error:
        print(f"does not load: the {name} ({str(error).split(': ')[1]})")
PY
)
echo "$seen"
test "$seen" = "same predictions; loads: the second pipeline; does not load: the first (mismatched structure)"
