#!/usr/bin/env bash
# spaCy 3.8.14, `Token.similarity` and `Span.similarity`.
#
# Two tokens of the same letters have the similarity 1.0, and so have two spans of the same
# letters. The texts are compared before any vector is looked at, so vectors that depend on the
# context, in `doc.tensor`, make no difference: the senses of a word can't be told
# apart like this. Compute the cosine of the vectors instead.
#
# Seen: token 1.0, span 1.0, cosine 0.0
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

doc = Doc(Vocab(), words=["bank", "and", "bank"])
doc.tensor = np.array([[1, 0], [1, 1], [0, 1]], dtype="float32")
first, second = doc[0], doc[2]
token = first.similarity(second)
span = doc[0:1].similarity(doc[2:3])
cosine = float(first.vector @ second.vector)
print(f"token {token}, span {span}, cosine {cosine}")
PY
)
echo "$seen"
test "$seen" = "token 1.0, span 1.0, cosine 0.0"
