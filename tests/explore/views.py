"""Views of a tiny random model, and what pages hold."""

import json
import re
from html.parser import HTMLParser

import numpy as np

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.explore import Context, Page, View

from ..models import tiny_config

WORDS = ["the", "a", "boat", "money", "river", "lay", "we", "saw", "deep", "old"]
VOCAB = ["<S>", "</S>", "<UNK>", "bank", *WORDS]
# Nothing of this may be more than text.
HOSTILE = [
    "</script><script>window.hit=1</script>",
    "<!--<script>",
    "<img src=x onerror=window.hit=1>",
    "\u202eevil\u202c",
    "a\u2028b\x00c\x1b[31m",
    "\ud800",
    "${policy}$title",
    "&lt;b&gt;",
    "x" * 1_000_000,
]


def tiny_bilm(**overrides) -> BiLM:
    config: BiLMConfig = tiny_config(**overrides)
    return BiLM.random(config, seed=1, vocab=VOCAB)


def tiny_softmax(bilm: BiLM) -> FullSoftmax:
    softmax = FullSoftmax(bilm.config.projection_dim, len(VOCAB))
    rng = np.random.default_rng(0)
    for parameter in softmax.parameters():
        parameter.data.copy_(parameter.new_tensor(rng.normal(size=parameter.shape)))
    return softmax.eval()


def bank_contexts(n: int, seed: int = 0) -> list[Context]:
    """Random sentences with "bank", or "Bank" now and then."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        tokens = [str(word) for word in rng.choice(WORDS, size=rng.integers(3, 9))]
        at = int(rng.integers(len(tokens)))
        tokens[at] = "Bank" if i % 5 == 0 else "bank"
        found.append(Context([*tokens, f"number{i}"], at))
    return found


def many_points(n: int) -> View:
    """Return a view of n points without a model."""
    rng = np.random.default_rng(0)
    layer = {
        "points": rng.normal(size=2 * n).round(4).tolist(),
        "variance": [0.3, 0.2],
        "cluster": rng.integers(0, 6, size=n).tolist(),
        "typical": [[f"word{k}", f"other{k}"] for k in range(6)],
        "near": rng.integers(0, n, size=(n, 10)).tolist(),
        "cosine": rng.integers(0, 1000, size=(n, 10)).tolist(),
    }
    tokens = [*map(str, rng.choice(WORDS, size=12)), "bank", *WORDS]
    data = {
        "word": "bank",
        "contexts": [
            [*tokens[:12], "bank", *tokens[12:], f"number{i}"] for i in range(n)
        ],
        "positions": [12] * n,
        "labels": None,
        "layers": [layer, layer],
    }
    return View("word", f"{n} points", "random", data)


class Parsed(HTMLParser):
    """The elements of a page, as a browser reads them."""

    def __init__(self, page: Page) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, list[str]] = {}
        self.feed(page.html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.content.setdefault(tag, []).append("")

    def handle_data(self, data):
        if self.cdata_elem:  # inside a script or a style
            self.content[self.cdata_elem][-1] += data

    @property
    def data(self):
        return json.loads(self.content["script"][0])

    @property
    def policy(self) -> str:
        (found,) = (
            a["content"] for _, a in self.elements
            if a.get("http-equiv") == "Content-Security-Policy"
        )  # fmt: skip
        assert found is not None
        return found

    def directive(self, name: str) -> str:
        found = re.search(rf"(?:^|; ){name} ([^;]+)", self.policy)
        assert found is not None
        return found[1]
