"""The biLM inside spaCy: the component `elmo`, its listeners, and the layers of Thinc
that they are made of.

factory.py, component.py       `nlp.add_pipe("elmo")`. Start reading at component.py
settings.py, with_weights.py   its settings, and where its weights come from
encoder.py, spans.py           Docs -> sentences -> the biLM (shim.py) -> layers
layer_store.py, layer_cache.py layers that wait for listeners, and for the next epoch
words.py                       static vectors of words beside ELMo's
listener.py, mix.py            a mix of layers for each component that listens
fine_tuning.py                 gradients of listeners -> one update of the biLM
"""

from .component import Elmo
from .doc_layers import ElmoLayers
from .doc_similarity import similarity
from .factory import component_config
from .listener import ElmoListener
from .mix import normalize, shares
from .mixes import LearnedMix, learned_mixes
from .mixes import draw as draw_mixes
from .training_config import make_config
from .words import WordsShim, shipped_words

__all__ = [
    "Elmo", "ElmoLayers", "ElmoListener", "LearnedMix", "WordsShim", "component_config",
    "draw_mixes", "learned_mixes", "make_config", "normalize", "shares",
    "shipped_words", "similarity",
]  # fmt: skip
