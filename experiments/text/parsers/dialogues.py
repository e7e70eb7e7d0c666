"""Schema-guided dialogues: what user and assistant say, one utterance per line."""

import json
from collections.abc import Iterable, Iterator

from ..prose import tidy
from ..source import Blob, Document


def parse(blobs: Iterable[Blob]) -> Iterator[Document]:
    """One document a dialogue."""
    for blob in blobs:
        for dialogue in json.loads(blob.data):
            lines = [tidy(turn["utterance"]) for turn in dialogue["turns"]]
            name = f"{blob.path} {dialogue['dialogue_id']}"
            yield Document(name, [line for line in lines if line])
