"""Words a second of `nlp.pipe`, and the share of time that is not the biLM's.

The pipeline is one that people use: a sentencizer, elmo, and a tagger and an ner that
listen to it (random weights; what they find takes as long to find as what is true).
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import require_gpu
from torch import nn
from tqdm import tqdm

from spacy_elmo.bilm.bilm import BiLM

from .speed import (
    Run,
    Sentences,
    in_turn,
    load_model,
    on_threads,
    read_sentences,
    show,
)
from .timing import MODEL, TEXT

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TAGS = [f"T{i}" for i in range(45)]  # as many as the Penn Treebank has
ENTITIES = [f"E{i}" for i in range(4)]
TAGGER = {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}
NER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "ner",
    "extra_state_tokens": False,
    "hidden_width": 64,
    "maxout_pieces": 2,
    "use_upper": True,
    "tok2vec": LISTENER,
}


def make_pipeline(bilm: BiLM, *, listeners: int = 2, **settings: Any) -> Language:
    """Return a sentencizer, elmo, and taggers and ners in turn, as many as there are
    listeners. settings: of `spacy-elmo.BiLM.v1`."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    add_elmo(nlp, bilm, **settings)
    for number in range(listeners):
        factory, model = (("tagger", TAGGER), ("ner", NER))[number % 2]
        nlp.add_pipe(factory, name=f"{factory}{number}", config={"model": model})
    nlp.initialize(lambda: [_example(nlp)])
    return nlp


def add_elmo(nlp: Language, bilm: BiLM, **settings: Any) -> None:
    model: dict[str, Any] = {
        "@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict(), **settings
    }  # fmt: skip
    elmo: Any = nlp.add_pipe("elmo", config={"model": model})
    elmo.model.layers[0].shims[0].set_weights(bilm, "benchmark")


def _example(nlp: Language) -> Example:
    """Return an example with every label."""
    words = [f"w{i}" for i in range(len(TAGS))]
    entities = [f"U-{ENTITIES[i % len(ENTITIES)]}" for i in range(len(TAGS))]
    return Example.from_dict(
        Doc(nlp.vocab, words=words),
        {"words": words, "tags": TAGS, "entities": entities},
    )


def texts_of(sentences: Sentences, n_words: int) -> list[str]:
    """Return text with n_words for each Doc but the last; sentences if n_words is 0."""
    if n_words == 0:
        return [" ".join(sentence) for sentence in sentences]
    words = [word for sentence in sentences for word in sentence]
    return [
        " ".join(words[start : start + n_words])
        for start in range(0, len(words), n_words)
    ]


@contextmanager
def time_in(modules: Sequence[nn.Module]) -> Iterator[list[float]]:
    """Collect the seconds in modules of one thread, one a call; on a GPU those in which
    the host gives it work."""
    spent: list[float] = []
    started: list[float] = []

    def before(*_: Any) -> None:
        started.append(time.perf_counter())

    def after(*_: Any) -> None:
        spent.append(time.perf_counter() - started.pop())

    hooks = [m.register_forward_pre_hook(before) for m in modules]
    hooks += [m.register_forward_hook(after) for m in modules]
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()


class Piping:
    """Runs of `nlp.pipe` over texts, with a cold cache, and where their time went."""

    def __init__(self, nlp: Language, texts: list[str]) -> None:
        self.nlp = nlp
        self.texts = texts
        elmo: Any = nlp.get_pipe("elmo")
        self.bilm: BiLM = elmo.bilm
        self.shares_outside: list[float] = []

    def run(self) -> float:
        """Returns the number of words, as the tokeniser has made them."""
        bilm = self.bilm
        bilm.token_cache.clear()
        started = time.perf_counter()
        with time_in([bilm]) as inside:
            words = sum(len(doc) for doc in self.nlp.pipe(self.texts))
        whole = time.perf_counter() - started
        self.shares_outside.append(1 - sum(inside) / whole)
        return float(words)

    def run_in(self, processes: int) -> float:
        """The same in so many processes, which take Docs in turn."""
        self.bilm.token_cache.clear()
        turns = min(self.nlp.batch_size, len(self.texts) // (4 * processes) + 1)
        docs = self.nlp.pipe(self.texts, batch_size=turns, n_process=processes)
        return float(sum(len(doc) for doc in docs))


def benchmark(
    models: Sequence[str],
    sentences: Sentences,
    *,
    doc_words: Sequence[int],
    rounds: int = 3,
    precision: str = "float32",
    processes: int = 1,
) -> list[dict[str, Any]]:
    """Return a row for every model and length of Docs (0: a sentence): words/s, and
    the share of time outside the biLM (tokeniser, sentencizer, copies, mixes, tagger,
    ner), on one thread; and how many times the words/s of one process several make."""
    rows = []
    with on_threads(1):
        for name in tqdm(models, leave=False):
            nlp = make_pipeline(load_model(name), precision=precision)
            for n_words in doc_words:
                piping = Piping(nlp, texts_of(sentences, n_words))
                runs: dict[str, Run] = {"one": piping.run}
                if processes > 1:
                    runs["several"] = partial(piping.run_in, processes)
                speeds = in_turn(runs, rounds)
                row = {
                    "model": name,
                    "Docs": len(piping.texts),
                    "of words": n_words or "sentences",
                    "words/s": speeds["one"],
                    "outside the biLM": statistics.median(piping.shares_outside),
                }
                if processes > 1:
                    gain = speeds["several"] / speeds["one"]
                    row[f"{processes} processes"] = f"{gain:.2f}x"
                rows.append(row)
    return rows


def main(
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(["small"], help=MODEL),
    doc_words: list[int] = typer.Option(
        [0, 200, 1000], help="Words of a Doc; 0 for a sentence"
    ),
    tokens: int = typer.Option(20_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each is measured"),
    precision: str = typer.Option("float32", help="float32, tf32 or half"),
    processes: int = typer.Option(1, help="Of nlp.pipe, beside one"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="Of the GPU; -1 for the CPU"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    if gpu_id >= 0:
        require_gpu(gpu_id)
    rows = benchmark(
        model,
        read_sentences(text, tokens),
        doc_words=doc_words,
        rounds=rounds,
        precision=precision,
        processes=processes,
    )
    show({"nlp.pipe": rows}, as_json)


if __name__ == "__main__":
    typer.run(main)
