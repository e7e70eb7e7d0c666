"""A corpus that is read from disk once, not at every evaluation.

spaCy's own reader decodes each Doc anew whenever the development set is scored. The
examples, and so the results, are the same.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from spacy.language import Language
from spacy.training import Corpus, Example
from spacy.util import registry

READER = "spacy-elmo.workflows.KeptCorpus.v1"


class KeptCorpus(Corpus):
    """spaCy's `Corpus`; what was read for a pipeline is held in memory. (Training and
    evaluation annotate copies.)"""

    _nlp: Language | None = None

    def __call__(self, nlp: Language) -> Iterator[Example]:
        if nlp is not self._nlp:
            self._examples = list(super().__call__(nlp))
            self._nlp = nlp
        yield from self._examples


@registry.readers(READER)
def kept_corpus(
    path: Path,
    gold_preproc: bool,
    max_length: int = 0,
    limit: int = 0,
    augmenter: Callable[[Language, Example], Iterator[Example]] | None = None,
) -> KeptCorpus:
    return KeptCorpus(
        path,
        gold_preproc=gold_preproc,
        max_length=max_length,
        limit=limit,
        augmenter=augmenter,
    )
