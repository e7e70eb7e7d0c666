"""A model's card in Markdown, as hubs of models show it, from its `card.json`."""

import json
from typing import Any

FILE = "README.md"
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
(`pip install spacy-elmo`):

```python
import spacy

nlp = spacy.blank({blank})
nlp.add_pipe("elmo", config={{"weights": "{name}"}})
```

## Text

{text[note]}.

- Licence: {text[licence]}; `ATTRIBUTION.md` names the sources
- Tokens read: {tokens_seen:,}, of a text of {text[tokens]:,}
- Vocabulary of the softmax: {vocabulary:,} words, {text[coverage]:.1%} of the text

## Evaluation

Held-out text, exact over the whole vocabulary.

{table}
## Limits

{limits}

## Training

- Time: {hours} h {minutes:02d} min
- Hardware: {hardware}
- Version: spacy-elmo {spacy_elmo}
- Fingerprint of the weights: `{fingerprint}`

```text
{command}
```

All settings are in `card.json`.
"""
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


def render(name: str, lang: str, card: dict[str, Any]) -> tuple[str, str]:
    """Return the front matter, in YAML, and the page of a shipped model's card.

    Args:
        name: Name of the model.
        lang: Its language.
        card: What its `card.json` holds, with `limits` and `test_perplexity`.
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
    return front, PAGE.format(**values, hours=hours, minutes=minutes)
