"""The meta data of a trained pipeline, which spaCy makes its card of."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spacy.cli.package import generate_readme, get_meta
from spacy.language import Language

from spacy_elmo.cli.group import markdown_table
from spacy_elmo.machine import describe_cpu

from .sources import HOME, LICENCE, LICENCE_TEXT, Pipeline

# What the tables have, if the pipeline has it: spaCy's names of scores.
SHOWN = {
    "token_f": "tokens, F1",
    "sents_f": "sentences, F1",
    "tag_acc": "tagger (XPOS), accuracy",
    "pos_acc": "morphologizer (UPOS), accuracy",
    "morph_acc": "morphologizer (features), accuracy",
    "lemma_acc": "lemmatizer, accuracy",
    "dep_uas": "parser, UAS",
    "dep_las": "parser, LAS",
    "ents_p": "ner, precision",
    "ents_r": "ner, recall",
    "ents_f": "ner, F1",
}
BY_LABEL = {
    "tag_per_type": "tagger",
    "pos_per_type": "morphologizer (UPOS)",
    "morph_per_feat": "morphologizer (features)",
    "dep_las_per_type": "parser",
    "ents_per_type": "ner",
}
# By setup ("with ELMo", "without"), then by way ("raw text", "gold tokens").
Found = Mapping[str, Mapping[str, Mapping[str, Any]]]


def describe(
    nlp: Language, name: str, pipeline: Pipeline, found: Found, notes: str
) -> None:
    """Write into the meta data what the pipeline is, and what it scored.

    Args:
        name: Of the package, the language at its beginning.
        notes: Paragraphs below the scores.
    """
    raw = found["with ELMo"]["raw text"]
    shown = {key: raw[key] for key in SHOWN if raw.get(key) is not None}
    by_label = {key: raw[key] for key in BY_LABEL if raw.get(key)}
    nlp.meta.update(
        name=name.removeprefix(f"{pipeline.lang}_"),
        version=version("spacy-elmo"),
        description=pipeline.description,
        author="The spacy-elmo developers",
        url=HOME,
        license=LICENCE,
        sources=pipeline.text_sources(),
        performance={**shown, **by_label},
        notes=notes,
    )


def scalars(scores: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores that the tables have, to four digits."""
    return {k: round(scores[k], 4) for k in SHOWN if scores.get(k) is not None}


def comparison(found: Found) -> str:
    """Return a table of the scores with ELMo and without, in per cent."""
    columns = [(setup, way) for way in ("gold tokens", "raw text") for setup in found]
    rows = [["", *(f"{way}, {setup}" for setup, way in columns)]]
    for key, label in SHOWN.items():
        values = [found[setup][way].get(key) for setup, way in columns]
        if all(value is not None for value in values):
            rows.append([label, *(f"{100 * value:.2f}" for value in values)])
    return markdown_table(rows)


NOTES = """\
Of the test set, from raw text: the pipeline finds tokens and sentences itself.
Dependencies are scored without punctuation, as spaCy does.

### With ELMo and without

The same components on hash embeddings and spaCy's convolutions in ELMo's place, and
both on the treebank's own tokens and sentences:

{table}
A short training, of one seed: {updates:,} updates of {words:,} words.

Words/s on one core of {processor}: {rates}. On disk {size:.0f} MB.
"""


def notes(
    found: Found,
    speeds: Mapping[str, Mapping[str, float]],
    saved: Path,
    training: Mapping[str, Any],
) -> str:
    """Return what the card says below its scores, which are of raw text.

    Args:
        speeds: Words/s of what was measured, by setup.
        saved: Folder of the pipeline.
        training: That section of its configuration.
    """
    rates = "; ".join(
        f"{', '.join(f'{what} {rate:,.0f}' for what, rate in rates.items())} ({setup})"
        for setup, rates in speeds.items()
    )
    size = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    return NOTES.format(
        table=comparison(found),
        updates=training["max_steps"],
        words=training["batcher"]["size"],
        processor=describe_cpu(),
        rates=rates,
        size=size / 1e6,
    )


def labels(scores: Mapping[str, Any]) -> str:
    """Return a table of precision, recall and F1 of every label, in per cent."""
    rows = [["component", "label", "precision", "recall", "F1"]]
    for key, component in BY_LABEL.items():
        for label, found in (scores.get(key) or {}).items():
            cells = (f"{100 * found[part]:.1f}" for part in "prf")
            rows.append([component, f"`{label}`", *cells])
    return markdown_table(rows)


def write_documents(folder: Path, nlp: Language, scores: Mapping[str, Any]) -> str:
    """Write what `spacy package` takes along beside a saved pipeline: the licences, and
    the card that it makes of the meta data, with scores by label. Returns the card."""
    readme = generate_readme(get_meta(folder, nlp.meta))
    card = (
        f"{readme}\n<details>\n\n<summary>Raw text, by label</summary>\n\n"
        f"{labels(scores)}\n</details>\n"
    )
    sources = [
        "\n".join(f"{key}: {source[key]}" for key in source)
        for source in nlp.meta["sources"]
    ]
    texts = {
        "README.md": card,
        "LICENSE": LICENCE_TEXT.read_text(encoding="utf-8"),
        "LICENSES_SOURCES": "\n\n".join(sources) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return card
