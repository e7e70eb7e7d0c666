"""The biLM inside spaCy: the component `elmo`, its listeners, and the layers of Thinc
that they are made of.

component.py        the component. Start reading here
factory.py          `nlp.add_pipe("elmo")`
settings.py         the settings of the component and of its listeners
encoder.py          Docs -> sentences (windows.py) -> the biLM (shim.py) -> layers
layers.py           the layers of a Doc, held until each listener has read them
cache.py            the layers of a sentence, kept for the next epoch
doc_vectors.py      what a Doc gives its user: `doc._.elmo`, similarity
listener.py         a mix of layers (mix.py) for each component that listens
tok2vec.py          the same with a biLM inside, for `replace_listeners`
fine_tuning.py      gradients of listeners -> one update of the biLM
architectures.py    the layers around a listener in a tok2vec; vectors of words
loading.py          a saved pipeline and its `elmo`
readers.py          readers and callbacks that a configuration can name
training_config.py  a whole configuration: `spacy elmo init-config`
"""

from .architectures import WordsShim, shipped_words
from .component import Elmo
from .doc_vectors import ElmoLayers, similarity
from .factory import component_config
from .listener import ElmoListener
from .loading import elmo_of, load_pipeline
from .mix import LearnedMix, draw_mixes, learned_mixes, normalize, shares
from .training_config import make_config

__all__ = [
    "Elmo", "ElmoLayers", "ElmoListener", "LearnedMix", "WordsShim", "component_config",
    "draw_mixes", "elmo_of", "learned_mixes", "load_pipeline", "make_config",
    "normalize", "shares", "shipped_words", "similarity",
]  # fmt: skip
