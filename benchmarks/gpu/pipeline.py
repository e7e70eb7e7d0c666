"""The second stage: `Doc.tensor`, listeners, CuPy and `nlp.pipe`."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import require_cpu, require_gpu, to_numpy

from benchmarks.layer_cache import epoch, make_tagger
from benchmarks.pipe import NER, TAGGER, TAGS, make_pipeline, texts_of
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.models import find

from ..speed import Sentences, in_turn, made_up_sentences, made_up_words
from .bilm import KERNELS, read
from .common import TINY, configs, run_tests, uneven_sentences, waits
from .runner import Context, Rows, Step, Tables
from .trace import copies_and_waits, longest, summary, traced

TESTS = ["tests/gpu/test_pipeline.py", "tests/gpu/test_bilm.py"]
SPACY_TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 96,
    "depth": 4,
    "embed_size": 2000,
    "window_size": 1,
    "maxout_pieces": 3,
    "subword_features": True,
}
BATCH_DOCS = (128, 1024, 4096)


@contextmanager
def on(device: str) -> Iterator[None]:
    """Let spaCy use a device inside."""
    if device == "cpu":
        require_cpu()
    else:
        require_gpu(torch.device(device).index or 0)
    try:
        yield
    finally:
        require_cpu()


def sizes(context: Context) -> dict[str, Any]:
    """Return models by name: random ones, and the one that ships."""
    if context.tiny:
        return {"tiny": lambda: BiLM.random(TINY)}
    return {
        "en_elmo_sm": lambda: BiLM.load(find("en_elmo_sm")),
        "small": lambda: BiLM.random(configs(context)["small"]),
    }


def texts(context: Context, n_tokens: int) -> list[str]:
    """Return text of sentences of 20 words."""
    n_tokens = 200 if context.tiny else n_tokens
    return texts_of(made_up_sentences(made_up_words(20_000), n_tokens), 0)


def tests(context: Context) -> Tables:
    """The tests that are marked gpu."""
    return {"tests": run_tests(TESTS, context)}


def doc_tensor(context: Context) -> Tables:
    """`Doc.tensor`, layers and what listeners read, against those of the CPU."""
    rows: Rows = []
    some = [" ".join(words) for words in uneven_sentences(40)]
    for name, make in context.while_time(list(sizes(context).items())):
        found = {}
        for device in ("cpu", context.device):
            with on(device):
                nlp = make_pipeline(make())
                docs = list(nlp.pipe([*some, "", " "]))
                elmo: Any = nlp.get_pipe("elmo")
                listener = elmo.listeners[0].predict(docs)
                parts = {
                    "Doc.tensor": [doc.tensor for doc in docs],
                    "layers": [doc._.elmo.layers for doc in docs],
                    "listener": listener,
                }
                kinds = {k: type(v[0]).__module__ for k, v in parts.items()}
                own = all(each.base is None for each in parts["Doc.tensor"])
                arrays = {k: [to_numpy(x) for x in v] for k, v in parts.items()}
                found[device] = arrays
        for what, expected in found["cpu"].items():
            ours = found[context.device][what]
            largest = max(float(abs(x).max()) for x in expected if x.size)
            pairs = [(a, b) for a, b in zip(ours, expected) if b.size]
            error = max(float(abs(a - b).max()) for a, b in pairs) / largest
            row = {"model": name, "what": what, "array of": kinds[what]}
            row["error / largest value"] = error
            rows.append({**row, "in memory of its own": own})
    return {"against the CPU": rows}


def _pipeline(name: str, context: Context, **settings: Any) -> Language:
    return make_pipeline(sizes(context)[name](), **settings)


def _words(nlp: Language, some: list[str], batch_size: int) -> float:
    return float(sum(len(doc) for doc in nlp.pipe(some, batch_size=batch_size)))


def syncs(context: Context) -> Tables:
    """Where `nlp.pipe` waits for the GPU: by torch's debugging mode, which does not see
    CuPy, and by the profiler, which does."""
    tables: Tables = {}
    some = texts(context, 20_000)
    with on(context.device):
        name = next(iter(sizes(context)))
        for listeners in (0, 2):
            nlp = _pipeline(name, context, listeners=listeners)

            def run(nlp: Language = nlp) -> float:
                return _words(nlp, some, 256)

            words = run()
            title = f"{listeners} listeners"
            tables[f"{title}: torch waits at"] = waits(run, context.device)
            events = traced(run, context.device)
            tables[f"{title}: gaps"] = [{"words": words, **summary(events, words)}]
            tables[f"{title}: copies and waits"] = copies_and_waits(events)
            tables[f"{title}: kernels"] = longest(events)
    return tables


def pipe(context: Context) -> Tables:
    """Words/s of whole pipelines, beside spaCy's own tok2vec with the same tasks."""
    rows = context.tables["words/s"] = []
    some = texts(context, 30_000)
    with on(context.device):
        own = _own_tok2vec()
        names = list(sizes(context))
        batches = BATCH_DOCS[:1] if context.tiny else BATCH_DOCS
        cases = [(name, batch) for batch in batches for name in names]
        for name, batch in context.while_time(cases, share=0.1):
            row: dict[str, Any] = {"model": name, "Docs at once": batch}
            alone = _pipeline(name, context, listeners=0)
            row["elmo alone"] = _speed(alone, some, batch)
            for tokens in (4096, 65_536):
                nlp = _pipeline(name, context, batch_tokens=tokens)
                for label in ("chosen", "both directions at once"):
                    with force(**KERNELS[label]):
                        column = f"tagger and ner, {label}, {tokens:,} tokens"
                        row[column] = _speed(nlp, some, batch)
            row["spaCy's tok2vec, tagger and ner"] = _speed(own, some, batch)
            rows.append(row)
    return context.tables


def _speed(nlp: Language, some: list[str], batch: int) -> float:
    return in_turn({"pipe": lambda: _words(nlp, some, batch)}, 2)["pipe"]


def _own_tok2vec() -> Language:
    """Return spaCy's own tok2vec with a tagger and an ner that listen to it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("tok2vec", config={"model": SPACY_TOK2VEC})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    for factory, model in (("tagger", TAGGER), ("ner", NER)):
        nlp.add_pipe(factory, config={"model": {**model, "tok2vec": listener}})
    words = [f"w{i}" for i in range(len(TAGS))]
    answers = {"words": words, "tags": TAGS, "entities": ["U-E0"] * len(words)}
    nlp.initialize(
        lambda: [Example.from_dict(Doc(nlp.vocab, words=words), dict(answers))]
    )
    return nlp


def in_short(context: Context) -> Tables:
    """The figures that say most, if there is less than a minute: whole pipelines, and
    reading by kernel and precision, of the model that ships."""
    name, make = next(iter(sizes(context).items()))
    some = texts(context, 20_000)
    row: dict[str, Any] = {"model": name}
    context.tables["words/s of nlp.pipe"] = [row]
    with on(context.device):
        nlp = _pipeline(name, context, listeners=0)
        runs = {"elmo alone": (nlp, "chosen")}
        nlp = _pipeline(name, context)
        for label in ("chosen", "both directions at once"):
            runs[f"tagger and ner, {label}"] = nlp, label
        runs["spaCy's tok2vec, tagger and ner"] = _own_tok2vec(), "chosen"
        for column in context.while_time(list(runs), share=0.1):
            nlp, label = runs[column]
            with force(**KERNELS[label]):
                row[column] = _speed(nlp, some, 1024)
    rows = context.tables["tokens/s, cold, on the device"] = []
    sentences = made_up_sentences(made_up_words(20_000), 20_000)
    ways = [
        (batch, label, precision)
        for batch in ((2,) if context.tiny else (64, 1024))
        for label in ("definition", "chosen", "both directions at once")
        for precision in ("float32", "half")
        if precision == "float32" or (label != "definition" and context.device != "cpu")
    ]
    bilm = make().to(context.device)
    bilm.token_cache = TokenCache(0)
    for batch, label, precision in context.while_time(ways, share=0.02):
        row = {"batch": batch, "kernels": label, "precision": precision}
        bilm.set_precision(precision)  # type: ignore[arg-type]
        kernels = KERNELS.get(label, {"lstm": label, "token_encoder": label})
        with force(**kernels), torch.no_grad():
            run = partial(read, bilm, sentences, batch)
            rows.append({**row, "tokens/s": in_turn({"it": run}, 1)["it"]})
    return context.tables


def training(context: Context) -> Tables:
    """Words/s of a tagger's epochs: frozen, with cached layers, and fine-tuned."""
    rows: Rows = []
    n_tokens = 200 if context.tiny else 6_000
    sentences = made_up_sentences(made_up_words(2_000), n_tokens)
    with on(context.device):
        for name, make in context.while_time(list(sizes(context).items())):
            row: dict[str, Any] = {"model": name}
            for label, cache in (("no cache", None), ("cache in memory", "memory")):
                nlp = make_tagger(make(), sentences, cache)
                row[label] = _epochs(nlp, sentences)
            nlp = make_tagger(make(), sentences, None)
            elmo: Any = nlp.get_pipe("elmo")
            elmo.frozen = False
            row["fine-tuned"] = _epochs(nlp, sentences)
            rows.append(row)
    return {"words/s of an epoch": rows}


def _epochs(nlp: Language, sentences: Sentences) -> float:
    return in_turn({"epoch": epoch(nlp, sentences)}, 1)["epoch"]


def out_of_memory(context: Context) -> Tables:
    """Docs whose layers do not fit a GPU's memory are read in smaller batches."""
    if context.device == "cpu":
        return {"smaller batches": []}
    name, make = next(iter(sizes(context).items()))
    some = [" ".join(words) for words in uneven_sentences(2_000)]
    rows: Rows = []
    with on(context.device):
        nlp = make_pipeline(make(), listeners=0)
        expected = [to_numpy(doc.tensor) for doc in nlp.pipe(some)]
        total = torch.cuda.get_device_properties(context.device).total_memory
        torch.cuda.empty_cache()
        base = torch.cuda.memory_reserved()
        for megabytes in (400, 200, 100):
            nlp = make_pipeline(make(), listeners=0, batch_tokens=1 << 17)
            limit = (base + (megabytes << 20)) / total
            torch.cuda.set_per_process_memory_fraction(limit)
            try:
                found = [to_numpy(doc.tensor) for doc in nlp.pipe(some)]
                errors = [abs(a - b).max() for a, b in zip(found, expected)]
                said = f"largest difference {float(np.max(errors)):.2g}"
            except MemoryError as error:
                said = str(error)[:200]
            finally:
                torch.cuda.set_per_process_memory_fraction(1.0)
                torch.cuda.empty_cache()
            rows.append({"model": name, "MB more": megabytes, "result": said})
    return {"smaller batches": rows}


STEPS = [
    Step(in_short, 30),
    Step(tests, 130),
    Step(doc_tensor, 60),
    Step(syncs, 60),
    Step(pipe, 150),
    Step(training, 90),
    Step(out_of_memory, 60),
]
