"""Which tokens of a Doc are read."""

import numpy as np
import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..pipelines import add_elmo


def test_white_space_in_docs_without_a_language():
    """Their Vocab has no lexical attributes: `DocBin.get_docs(Vocab())` makes such."""
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    words = ["We", " ", "saw", "\n", "Kim"]
    known, unknown = (Doc(vocab, words=words) for vocab in (nlp.vocab, Vocab()))
    for doc in (known, unknown):
        nlp.get_pipe("elmo")(doc)
    assert not unknown.tensor[[1, 3]].any()
    assert np.array_equal(known.tensor, unknown.tensor)
