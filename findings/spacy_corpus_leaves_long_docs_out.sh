#!/usr/bin/env bash
# spaCy 3.8.18, the reader `spacy.Corpus.v1` of training and evaluation.
#
# `max_length` is described as the length above which a Doc is split into its sentences if it
# has sentence boundaries. A Doc without them is not read whole then: it is left out, without
# a message, and so is a sentence that is too long. A Doc of exactly `max_length` tokens is
# too long already. `limit` is the number of Docs to read, but each further file of the folder
# adds one Doc after that number is reached. Leave both at 0, and cut Docs before they are
# saved.
#
# Seen: max_length 5 of Docs of 4, 5 and 9 tokens: without sentences [4], in sentences of 4 and
#       1, 4 and 5 tokens [4, 4, 1, 4]; limit 1 of 3 files: 3 Docs
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.18"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus

nlp = spacy.blank("en")


def doc_of(n_tokens, ends=None):
    """A Doc with a sentence boundary after some tokens; None for no boundaries."""
    starts = ends and [i == 0 or i in ends for i in range(n_tokens)]
    return Doc(nlp.vocab, words=["word"] * n_tokens, sent_starts=starts)


def lengths(path, **settings):
    return [len(example.reference) for example in Corpus(path, **settings)(nlp)]


DocBin(docs=[doc_of(4), doc_of(5), doc_of(9)]).to_disk("whole.spacy")
split = [doc_of(4, [2]), doc_of(5, [4]), doc_of(9, [4])]
DocBin(docs=split).to_disk("split.spacy")
Path("several").mkdir()
for name in ("a", "b", "c"):
    DocBin(docs=[doc_of(4), doc_of(4)]).to_disk(f"several/{name}.spacy")
print(
    "max_length 5 of Docs of 4, 5 and 9 tokens:",
    f"without sentences {lengths('whole.spacy', max_length=5)},",
    f"in sentences of 4 and 1, 4 and 5 tokens {lengths('split.spacy', max_length=5)};",
    f"limit 1 of 3 files: {len(lengths('several', limit=1))} Docs",
)
PY
)
echo "$seen"
expected="max_length 5 of Docs of 4, 5 and 9 tokens: without sentences [4], in sentences of 4 and 1, 4 and 5 tokens [4, 4, 1, 4]; limit 1 of 3 files: 3 Docs"
test "$seen" = "$expected"
