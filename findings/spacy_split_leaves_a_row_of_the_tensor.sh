#!/usr/bin/env bash
# spaCy 3.8.18, `doc.retokenize()` and `Doc.from_docs`.
#
# `split` makes two tokens of one, and gives `doc.tensor` two rows of zeros more, one too
# many: the row of the token that was split goes, so a Doc of 4 tokens has 5 tokens and 6
# rows then, and the rows after the new tokens stay in place. `Doc.from_docs` stacks the rows
# of Docs as they are. So the vectors of every Doc that is joined after such a one are a row
# late, without a message. `merge` leaves one row for each token, and keeps that of the last
# token that was merged. Cut the tensor to the tokens before Docs are joined.
#
# Seen: split: 5 tokens, rows [0, 0, 2, 3, 4, 0]; joined after it: [0, 7, 8] for [7, 8, 9];
#       merge: rows [2, 3, 4]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.18"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import spacy
from spacy.tokens import Doc

vocab = spacy.blank("en").vocab


def doc_with(words, first):
    """A Doc whose vectors count from a number on."""
    doc = Doc(vocab, words=words)
    doc.tensor = np.arange(first, first + len(words), dtype="f")[:, None]
    return doc


def rows(tensor):
    return tensor[:, 0].astype(int).tolist()


split = doc_with(["ab", "c", "d", "e"], first=1)
with split.retokenize() as retokenizer:
    retokenizer.split(split[0], ["a", "b"], heads=[(split[0], 1), split[1]])
after = doc_with(["x", "y", "z"], first=7)
joined = Doc.from_docs([split, after])
merged = doc_with(["a", "b", "c", "d"], first=1)
with merged.retokenize() as retokenizer:
    retokenizer.merge(merged[0:2])
print(
    f"split: {len(split)} tokens, rows {rows(split.tensor)};",
    f"joined after it: {rows(joined.tensor[len(split) : len(joined)])} for {rows(after.tensor)};",
    f"merge: rows {rows(merged.tensor)}",
)
PY
)
echo "$seen"
expected="split: 5 tokens, rows [0, 0, 2, 3, 4, 0]; joined after it: [0, 7, 8] for [7, 8, 9]; merge: rows [2, 3, 4]"
test "$seen" = "$expected"
