"""What a shard holds beside its vectors.

Of a shard of tokens:
    token_text, token_text_offsets    UTF-8; where each token begins in it
    token_starts, token_ends          in characters of (the part of) the document
    sentence_offsets                  the number of each sentence's first token
    document_offsets                  the number of each document's first sentence
    document_ids, document_id_offsets UTF-8; where each document's begins
    document_positions                where it begins in the input: a byte, of a .spacy
                                      file the number of the Doc
Of sentences, the first four are left out. Of documents, document_offsets count tokens,
and sentence_offsets are left out too. All offsets have one more at the end.
"""

from array import array
from itertools import accumulate, pairwise

import numpy as np

from .sentences import Part


class Columns:
    """Gathers the text of a shard and where everything in it begins.

    Args:
        pool: As in `Kept`.
        default_id: Beginning of the id of a document that has none in the input; its
            position follows.

    Attributes:
        continues: Whether the first document began in the shard before.
    """

    def __init__(self, pool: str, default_id: str) -> None:
        self.pool, self.default_id = pool, default_id
        self.n_tokens = self.n_sentences = 0
        self.continues = False
        self._text, self._ids = bytearray(), bytearray()
        self._text_lengths, self._id_lengths = array("q", [0]), array("q", [0])
        self._starts, self._ends = array("i"), array("i")
        self._sentences, self._documents = array("q", [0]), array("q", [0])
        self._positions = array("q")

    @property
    def n_documents(self) -> int:
        """Number of documents, counting parts of long ones."""
        return len(self._positions)

    def add(self, part: Part) -> int:
        """Add the next part. Return the number of its document in the shard."""
        if part.begins or not self.n_documents:
            self.continues |= not part.begins
            name = part.id or f"{self.default_id}{part.position}"
            encoded = name.encode("utf-8")
            self._ids += encoded
            self._id_lengths.append(len(encoded))
            self._positions.append(part.position)
            self._documents.append(0)
        for sentence in part.sentences:
            self.n_sentences += 1
            self.n_tokens += len(sentence.tokens)
            self._sentences.append(len(sentence.tokens))
            size = len(sentence.tokens) if self.pool == "doc" else 1
            self._documents[-1] += size
            if self.pool == "token":
                encoded_tokens = [t.encode("utf-8", "replace") for t in sentence.tokens]
                self._text += b"".join(encoded_tokens)
                self._text_lengths.extend(map(len, encoded_tokens))
                self._starts.extend(sentence.starts)
                self._ends.extend(sentence.ends)
        return self.n_documents - 1

    def counts(self) -> dict[str, int]:
        """Return the numbers of documents, sentences and tokens."""
        return {
            "documents": self.n_documents,
            "sentences": self.n_sentences,
            "tokens": self.n_tokens,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is written, by name."""
        found = {
            "document_offsets": _offsets(self._documents),
            "document_positions": np.array(self._positions, dtype=np.int64),
            "document_id_offsets": _offsets(self._id_lengths),
        }
        if self.pool != "doc":
            found["sentence_offsets"] = _offsets(self._sentences)
        if self.pool == "token":
            found["token_text_offsets"] = _offsets(self._text_lengths)
            found["token_starts"] = np.array(self._starts, dtype=np.int32)
            found["token_ends"] = np.array(self._ends, dtype=np.int32)
            found["token_text"] = np.frombuffer(bytes(self._text), dtype=np.uint8)
        found["document_ids"] = np.frombuffer(bytes(self._ids), dtype=np.uint8)
        return found


def _offsets(lengths: "array[int]") -> np.ndarray:
    """Return where each item begins; lengths has a zero before the first."""
    return np.fromiter(accumulate(lengths), dtype=np.int64, count=len(lengths))


def strings(text: np.ndarray, offsets: np.ndarray) -> list[str]:
    """Return the strings that lie between offsets of UTF-8 text."""
    data, places = text[offsets[0] : offsets[-1]].tobytes(), offsets - offsets[0]
    ends = places.tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(ends)]
