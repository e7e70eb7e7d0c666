"""`.spacy` files that are Docs but for one part."""

import zlib

import spacy
import srsly
from spacy.tokens import DocBin

# Another value for a part of the file, which then has no attributes, fewer flags or
# categories than Docs, numbers for flags, no span groups, or attributes of no name.
DAMAGED_DOCS = {
    "no attrs": ("attrs", []),
    "no flags": ("flags", []),
    "no cats": ("cats", []),
    "flags": ("flags", [1, 2]),
    "span groups": ("span_groups", [b"\xc1", b"\xff"]),
    "attrs": ("attrs", ["x"] * 20),
}


def damaged_docs(part: str) -> bytes:
    nlp = spacy.blank("en")
    data = DocBin(docs=[nlp("The bank."), nlp("A bank.")]).to_bytes()
    docs = srsly.msgpack_loads(zlib.decompress(data))
    name, value = DAMAGED_DOCS[part]
    docs[name] = value
    return zlib.compress(srsly.msgpack_dumps(docs))
