#!/usr/bin/env bash
# spaCy 3.8.18, the three ways to keep Docs with `doc.tensor`.
#
# `DocBin`, the format of `.spacy` files, leaves `doc.tensor` out, and has no setting for it:
# a Doc that comes back has an empty tensor, so its vectors are those of the vocabulary, which
# are zeros in a blank pipeline. `doc.cats` is kept. `store_user_data` brings extension
# attributes back, and no tensor. `doc.to_bytes` and pickle keep it. Keep vectors of a corpus
# beside its `.spacy` file, in a format of arrays.
#
# Seen: DocBin: tensor (0,), similarity 0.0, cats {'A': 1.0}; with user data: tensor (0,);
#       to_bytes: tensor (2, 3); pickle: tensor (2, 3)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.18"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import pickle

import numpy as np
import spacy
from spacy.tokens import Doc, DocBin

nlp = spacy.blank("en")
doc = nlp("two words")
doc.tensor = np.array([[1, 0, 0], [1, 1, 0]], dtype="f")
doc.cats = {"A": 1.0}


def back(**settings):
    stored = DocBin(docs=[doc], **settings).to_bytes()
    return next(DocBin().from_bytes(stored).get_docs(nlp.vocab))


plain, with_data = back(), back(store_user_data=True)
in_bytes = Doc(nlp.vocab).from_bytes(doc.to_bytes())
pickled = pickle.loads(pickle.dumps(doc))
print(
    f"DocBin: tensor {plain.tensor.shape},",
    f"similarity {plain[0].similarity(plain[1])}, cats {plain.cats};",
    f"with user data: tensor {with_data.tensor.shape};",
    f"to_bytes: tensor {in_bytes.tensor.shape}; pickle: tensor {pickled.tensor.shape}",
)
PY
)
echo "$seen"
expected="DocBin: tensor (0,), similarity 0.0, cats {'A': 1.0}; with user data: tensor (0,); to_bytes: tensor (2, 3); pickle: tensor (2, 3)"
test "$seen" = "$expected"
