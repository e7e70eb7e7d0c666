#!/usr/bin/env bash
# spaCy 3.8.14, `add_pipe(name, source=nlp)`.
#
# A sourced component is not copied: both pipelines hold the same object. What listens to a
# `tok2vec` is looked up again in the pipeline that was changed last, so the first pipeline
# has no listeners any more, although it was not touched. Its predictions stay as they were.
# When it is trained, the listener gets nothing new: it goes on with the vectors of its last
# batch, in silence if the next one has the same words, and with E953, of a mismatch between
# listener and batch, if it has others. Source from a pipeline that is loaded for that.
#
# Seen: ['tagger'] [] same batch: old vectors, other batch: E953
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
nlp = spacy.blank("en")
tok2vec = nlp.add_pipe("tok2vec")
model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
tagger = nlp.add_pipe("tagger", config={"model": model})


def batch(text):
    return [Example.from_dict(nlp.make_doc(text), {"tags": ["A", "B", "C"]})]


def heard(text):
    """The vectors that the tagger learns from in an update."""
    nlp.update(batch(text), sgd=optimizer)
    return tagger.model.get_ref("tok2vec")._outputs


optimizer = nlp.initialize(lambda: batch("a b c"))
assert heard("a b c") is not heard("a b c")
listened, before = list(tok2vec.listener_map), heard("a b c")
spacy.blank("en").add_pipe("tok2vec", source=nlp)
same = "old vectors" if heard("a b c") is before else "new vectors"
try:
    heard("d e f")
    other = "no error"
except ValueError as error:
    other = str(error)[1:5]
print(listened, list(tok2vec.listener_map), f"same batch: {same}, other batch: {other}")
PY
)
echo "$seen"
test "$seen" = "['tagger'] [] same batch: old vectors, other batch: E953"
