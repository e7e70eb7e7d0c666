#!/usr/bin/env bash
# spaCy 3.8.14, `Doc.vector`.
#
# Without vectors in the vocabulary, `doc.vector` is the mean of `doc.tensor`. It is computed once
# and kept: when the tensor is replaced, by a component that runs later or by a second call of
# a component, `token.vector` and `span.vector` are of the new tensor, and `doc.vector`, and
# so `doc.similarity`, still of the old one. `doc.vector = None` makes spaCy compute it again.
#
# Seen: doc [1. 1.], span [5. 5.], token [5. 5.]; after a reset doc [5. 5.]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab

doc = Doc(Vocab(), words=["a", "b"])
doc.tensor = np.ones((2, 2), dtype="float32")
doc.vector
doc.tensor = np.full((2, 2), 5, dtype="float32")
kept = doc.vector
span, token = doc[:].vector, doc[0].vector
doc.vector = None
print(f"doc {kept}, span {span}, token {token}; after a reset doc {doc.vector}")
PY
)
echo "$seen"
test "$seen" = "doc [1. 1.], span [5. 5.], token [5. 5.]; after a reset doc [5. 5.]"
