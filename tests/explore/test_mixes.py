"""The page of mixes shows what the listeners have learned."""

import pytest
import spacy

from spacy_elmo.component.mixes import learned_mixes
from spacy_elmo.explore import mix_view

from ..pipelines import examples, pipeline


def test_shares_of_every_listener():
    nlp = pipeline()
    nlp.initialize(lambda: examples(nlp))
    view = mix_view(nlp)
    found = [(m["component"], m["shares"], m["gamma"]) for m in view.data["mixes"]]
    expected = [(m.component, m.shares, m.gamma) for m in learned_mixes(nlp)]
    assert found == expected and len(found) == 2
    with pytest.raises(ValueError, match="EL090"):
        mix_view(spacy.blank("en"))
