"""The page of mixes shows what the listeners have learned."""

import numpy as np
import pytest
import spacy

from spacy_elmo.explore import mix_view

from ..pipelines import examples, pipeline


def test_shares_of_every_listener():
    nlp = pipeline()
    nlp.initialize(lambda: examples(nlp))
    learned = {
        "tagger": (np.log([1, 2, 3]), 2.5),
        "ner": (np.log([3, 2, 1]) - 4, -0.5),
    }
    for name, (weights, gamma) in learned.items():
        (listener,) = nlp.get_pipe("elmo").listener_map[name]
        listener.set_param("W", weights.astype("float32"))
        listener.set_param("gamma", np.array([gamma], dtype="float32"))
    tagger, ner = mix_view(nlp).data["mixes"]
    assert (tagger["component"], ner["component"]) == ("tagger", "ner")
    assert (tagger["gamma"], ner["gamma"]) == (2.5, -0.5)
    assert tagger["shares"] == pytest.approx([1 / 6, 1 / 3, 1 / 2], abs=1e-6)
    assert ner["shares"] == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=1e-6)
    with pytest.raises(ValueError, match="EL090"):
        mix_view(spacy.blank("en"))
