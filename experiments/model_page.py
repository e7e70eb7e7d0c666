"""The card of a model that ships, as Markdown for hubs of models."""

import json
from typing import Any

from spacy_elmo.models import ancestors

TEXTS = ("dev", "test")
MARKS = {
    "forward": "perplexity, forward",
    "backward": "perplexity, backward",
    "mean": "perplexity, mean",
    "bits_per_character": "bits per character",
}
# Arguments of spacy.blank, where the language alone would ask for another package.
BLANK = {
    "ko": """
    "ko", config={"nlp": {"tokenizer": {"@tokenizers": "spacy.Tokenizer.v1"}}}
"""
}
FRONT_MATTER = """\
---
language: {lang}
license: {licence_id}
library_name: spacy-elmo
pipeline_tag: feature-extraction
tags:
- spacy
- elmo
- bilm
- contextual-embeddings
model-index:
- name: {name}
  results:
{results}---

"""
PAGE = """\
# {name}

A bidirectional language model (ELMo) of {parameters:,} parameters. It gives each token
of a sentence a vector for each layer. Language: `{lang}`. It is in the package
(`pip install {package}`):

```python
import spacy

nlp = spacy.blank({blank})
nlp.add_pipe("elmo", config={{"weights": "{name}"}})
```

## Text

{text[note]}.

- Licence: {text[licence]}; `ATTRIBUTION.md` names the sources
- Tokens read: {tokens_seen:,}, boundaries of sentences included, of a text of
  {text[tokens]:,} without them{before}
- Vocabulary of the softmax: {vocabulary:,} words, {text[coverage]:.1%} of the text
{form}
## Evaluation

Held-out text, exact over the whole vocabulary.

{table}
## Limits

{limits}

## Training

- Time: {hours} h {minutes:02d} min{part}
- Hardware: {hardware}
- Trained by spacy-elmo {spacy_elmo}
- Version of the weights: {version}, with the fingerprint
  `{fingerprint}`

```text
{command}
```

All settings are in `card.json`.
"""
IN_FORM = "- All of it is in the Unicode form {form}, to which words are turned\n"
BEFORE = "\n- Before it, {model} read {tokens_seen:,} tokens of: {text[note]}"
RESULT = """\
  - task:
      type: language-modeling
    dataset:
      name: {name}
      type: text
      split: {split}
    metrics:
    - type: perplexity
      value: {mean:.2f}
    - type: bits_per_character
      value: {bits_per_character:.3f}
"""


def render(
    name: str, lang: str, card: dict[str, Any], package: str = "spacy-elmo"
) -> tuple[str, str]:
    """Return the front matter, in YAML, and the page of a shipped model's card.

    Args:
        name: Name of the model.
        lang: Its language.
        card: The content of `card.json`, with `limits` and `test_perplexity`.
        package: The package that the model is installed with.
    """
    text, found = card["text"], {split: card[f"{split}_perplexity"] for split in TEXTS}
    results = "".join(
        RESULT.format(name=json.dumps(f"{name}, held-out text"), split=split, **marks)
        for split, marks in found.items()
    )
    front = FRONT_MATTER.format(
        lang=lang,
        name=name,
        licence_id=text["licence"].lower().replace(" ", "-"),
        results=results,
    )
    table = f"| | {' | '.join(TEXTS)} |\n|---|{'---|' * len(TEXTS)}\n"
    for key, title in MARKS.items():
        cells = " | ".join(f"{marks[key]:.2f}" for marks in found.values())
        table += f"| {title} | {cells} |\n"
    hours, minutes = divmod(round(card["seconds"] / 60), 60)
    blank = BLANK.get(lang, f'"{lang}"')
    values = {**card, "name": name, "lang": lang, "blank": blank, "table": table}
    values["package"] = package
    values["before"] = "".join(
        BEFORE.format(model=_of_version(before), **before) for before in ancestors(card)
    )
    form = card.get("unicode_form")
    values["form"] = "" if form is None else IN_FORM.format(form=form)
    values["part"] = ", of the last part alone" if ancestors(card) else ""
    return front, PAGE.format(**values, hours=hours, minutes=minutes)


def _of_version(card: dict[str, Any]) -> str:
    version = card.get("version")
    return f"version {version}" if version else "an earlier part of the training"
