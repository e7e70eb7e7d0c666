"""What each pipeline is made of, and the licences of it."""

from dataclasses import dataclass
from pathlib import Path

from spacy_elmo import models as shipped
from spacy_elmo.models import ancestors, read_card

Source = dict[str, str]
LICENCE = "CC BY-SA 4.0"
LICENCE_TEXT = Path(__file__).resolve().parents[2] / "LICENSE-CC-BY-SA-4.0.txt"
ANNOTATIONS = f"{LICENCE} (the annotations; its README says whose the text is)"
HOME = "https://github.com/spacy-elmo/spacy-elmo"
UD = "https://github.com/UniversalDependencies"


@dataclass(frozen=True)
class Pipeline:
    """A pipeline that can be installed.

    Attributes:
        treebank: Beginning of the names of its files, which `-train.conllu` ends.
        has_entities: Whether there are files of Universal NER beside them.
        dropout_without: Dropout of the pipeline without ELMo that it is compared with,
            where that is better with another one; None for the configuration's.
        sources: As `nlp.meta["sources"]` has them.
    """

    lang: str
    treebank: str
    description: str
    sources: tuple[Source, ...]
    has_entities: bool = False
    dropout_without: float | None = None

    def text_sources(self) -> list[Source]:
        """Return the sources, and the corpora that the biLM has read, each once."""
        model = shipped.MODELS[self.lang]
        card = read_card(shipped.find(model)) or {}
        texts = [each["text"] for each in (card, *ancestors(card))]
        read = dict.fromkeys((text["note"], text["licence"]) for text in texts)
        return [
            *self.sources,
            *({"name": f"{model}: {n}", "license": licence} for n, licence in read),
        ]


PIPELINES = {
    "en_elmo_ewt": Pipeline(
        lang="en",
        treebank="en_ewt-ud",
        description="English pipeline on one frozen ELMo: sentences, parts of speech, "
        "features, lemmas, dependencies and entities (PER, LOC, ORG).",
        sources=(
            {
                "name": "UD English EWT, commit 15d613d",
                "url": f"{UD}/UD_English-EWT",
                "license": ANNOTATIONS,
                "author": "Natalie Silveira and others",
            },
            {
                "name": "Universal NER, English EWT, commit 8ed072d",
                "url": "https://github.com/UniversalNER/UNER_English-EWT",
                "license": ANNOTATIONS,
                "author": "Stephen Mayhew, Terra Blevins, Shuheng Liu and others",
            },
        ),
        has_entities=True,
    ),
    "ko_elmo_gsd": Pipeline(
        lang="ko",
        treebank="ko_gsd-ud",
        description="Korean pipeline on one frozen ELMo: sentences, parts of speech, "
        "lemmas (morphemes) and dependencies. It needs no MeCab.",
        sources=(
            {
                "name": "UD Korean GSD, commit c7af324",
                "url": f"{UD}/UD_Korean-GSD",
                "license": ANNOTATIONS,
                "author": "Jayeol Chun, Na-Rae Han, Jena D. Hwang, Jinho D. Choi "
                "and others",
            },
        ),
        dropout_without=0.3,
    ),
}
