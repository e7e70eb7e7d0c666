#!/usr/bin/env bash
# spaCy 3.8.14, `nlp.to_disk`, `nlp.to_bytes` and `nlp.meta`.
#
# `meta.json` is written before the components are. What a component adds to `nlp.meta` in
# its own `to_disk`, such as the size of what it writes there, is missing from the file, and
# is in that of the next time. `to_bytes` has the same order. A component that wants to be
# named there has to write into `nlp.meta` when it is initialised or loaded.
#
# Seen: to_disk: first time None, second time 3; to_bytes: first time None, second time 4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import json
from pathlib import Path

import spacy
import srsly
from spacy.language import Language


class Table:
    """A component that says in `nlp.meta` how many rows it has written."""

    def __init__(self, nlp, name):
        self.nlp = nlp

    def __call__(self, doc):
        return doc

    def to_disk(self, path, exclude=()):
        self.nlp.meta["rows_on_disk"] = 3
        path.mkdir(parents=True, exist_ok=True)

    def from_disk(self, path, exclude=()):
        return self

    def to_bytes(self, exclude=()):
        self.nlp.meta["rows_in_bytes"] = 4
        return b""

    def from_bytes(self, data, exclude=()):
        return self


Language.factory("table", func=Table)
nlp = spacy.blank("en")
nlp.add_pipe("table")


def in_file():
    nlp.to_disk("pipeline")
    return json.loads(Path("pipeline/meta.json").read_text()).get("rows_on_disk")


def in_bytes():
    return json.loads(srsly.msgpack_loads(nlp.to_bytes())["meta.json"]).get("rows_in_bytes")


print(
    f"to_disk: first time {in_file()}, second time {in_file()};",
    f"to_bytes: first time {in_bytes()}, second time {in_bytes()}",
)
PY
)
echo "$seen"
test "$seen" = "to_disk: first time None, second time 3; to_bytes: first time None, second time 4"
