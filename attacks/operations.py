"""Mixtures of operations on a component, against a model that knows the right vectors.

Hypothesis chooses the operations: weights, training, caches, precisions, copies,
pickles, files, Docs whose tokens change, pipes that come and go. Whatever came before,
the layers that are read are those of a float64 model in NumPy, which shares no code
with the package (tests/bilm/reference.py), for the weights that count.
"""

import contextlib
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import spacy
import torch
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from spacy.tokens import Doc

from spacy_elmo import BiLM
from tests.models import tiny_config
from tests.pipelines import TAGGER, TEXTS, add_elmo, examples, with_weights

from .files import memory_disk
from .report import Run
from .right_vectors import RightVectors, Weights

SIZES = tiny_config()
WORDS = ["I", "like", "London", "고양이", "naïve", "x" * 60, "😀", "a", "."]
STEPS = 30
# Largest difference from the right layers that is allowed, of the largest value of a
# sentence.
TOLERANCES = {"float32": 1e-5, "half": 0.05}
ROUNDING = 1e-6  # of a mean of layers
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)


# -- the machine ------------------------------------------------------------------


class Pipeline(RuleBasedStateMachine):
    """A pipeline of `elmo` and a tagger that listens to it."""

    run: Run
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir=self.folder))
        self.right = RightVectors(SIZES, self.place)
        self.nlp = spacy.blank("xx")
        add_elmo(self.nlp, sizes=SIZES, learn_rate_factor=10.0)
        self.nlp.add_pipe("tagger", config=TAGGER)
        self.batch = examples(self.nlp)
        self.sgd = self.nlp.initialize(lambda: self.batch)
        self.precision = "float32"
        self.expect(BiLM.random(SIZES, seed=1).state_dict())
        self.doc: Doc | None = None

    @property
    def elmo(self) -> Any:
        return self.nlp.get_pipe("elmo")

    def expect(self, weights: Weights) -> None:
        """Know the weights that count from now on."""
        self.weights = {k: v.detach().clone() for k, v in weights.items()}
        self.right.take(self.weights)
        self.doc = None

    def compare(self, doc: Doc, *, again: bool = False) -> None:
        """Compare the layers of a Doc with the right ones; it is cut into the sentences
        that it has now if it is read again."""
        found = doc._.elmo.layers
        cut = again and doc.has_annotation("SENT_START")
        sentences = doc.sents if cut else [doc]
        layers = [self.right.of(tuple(t.text for t in each)) for each in sentences]
        expected = np.concatenate(layers, axis=1)
        largest = np.abs(expected).max()
        self.allow(np.abs(found - expected).max() / largest)
        if not again:
            (alone,) = self.elmo.bilm.encode([[token.text for token in doc]])
            assert np.array_equal(found, alone), "other bits alone"
            off = np.abs(doc.tensor - found.mean(0)).max() / largest
            assert off <= ROUNDING, f"{off} between a tensor and its layers"
        self.run.counts["sentences compared"] += 1

    def allow(self, off: float) -> None:
        """Fail if a difference is too large, and note the largest."""
        kind = f"largest difference from right, {self.precision}"
        largest = max(off, float(str(self.run.notes.get(kind, 0))))
        self.run.notes[kind] = f"{largest:.1e}"
        assert off <= TOLERANCES[self.precision], f"{off} off, {kind}"

    # -- reading ------------------------------------------------------------------

    @rule(words=words)
    def read(self, words: list[str]) -> None:
        self.doc = self.nlp(Doc(self.nlp.vocab, words=words))
        self.compare(self.doc)

    @rule(many=st.lists(words, max_size=4), size=st.integers(1, 3))
    def pipe(self, many: list[list[str]], size: int) -> None:
        docs = [Doc(self.nlp.vocab, words=each) for each in many]
        for doc in self.nlp.pipe(docs, batch_size=size):
            self.compare(doc)

    @precondition(lambda self: self.doc is not None and len(self.doc) > 1)
    @rule(start=st.integers(0, 4), length=st.integers(2, 3))
    def merge(self, start: int, length: int) -> None:
        """Tokens that are merged are read again."""
        assert self.doc is not None
        if len(span := self.doc[start : start + length]) > 1:
            with self.doc.retokenize() as retokenizer:
                retokenizer.merge(span)
            self.compare(self.doc, again=True)

    @precondition(lambda self: self.doc is not None)
    @rule(words=words)
    def listen(self, words: list[str]) -> None:
        """What a listener gives is its mix of the right layers."""
        doc = self.nlp.make_doc(" ".join(words))
        (listener,) = self.elmo.listeners
        self.elmo.set_annotations([doc], self.elmo.predict([doc]))
        (found,) = listener.predict([doc])
        shares = np.exp(listener.get_param("W").astype("f8"))
        layers = self.right.of(tuple(token.text for token in doc))
        mixed = np.tensordot(shares / shares.sum(), layers, axes=1)
        expected = listener.get_param("gamma") * mixed
        bound = TOLERANCES[self.precision] * np.abs(layers).max()
        assert np.abs(found - expected).max() <= bound * 2

    # -- weights ------------------------------------------------------------------

    @rule(seed=st.integers(1, 4))
    def take_weights(self, seed: int) -> None:
        bilm = BiLM.random(SIZES, seed=seed)
        with_weights(self.elmo, bilm)
        self.precision = "float32"
        self.expect(bilm.state_dict())

    @rule(seed=st.integers(5, 8), format=st.sampled_from(["spacy-elmo", "bilm-tf"]))
    def load_weights(self, seed: int, format: str) -> None:
        bilm = BiLM.random(SIZES, seed=seed)
        bilm.save(self.place / format, format=format)
        self.elmo.load_weights(self.place / format)
        self.precision = "float32"
        self.expect(bilm.state_dict())

    @rule(seed=st.integers(0, 99))
    def change_in_place(self, seed: int) -> None:
        rng = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.elmo.bilm.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=rng), alpha=0.1)
        self.expect(self.elmo.bilm.state_dict())

    @rule(steps=st.integers(1, 2))
    def train(self, steps: int) -> None:
        """Frozen weights stay what they are; others are what counts from then on."""
        for _ in range(steps):  # as `spacy train` does
            self.nlp.update(examples(self.nlp), sgd=None)
            for _, component in self.nlp.pipeline:
                if hasattr(component, "finish_update"):
                    component.finish_update(self.sgd)
        now = self.elmo.bilm.state_dict()
        if self.elmo.frozen:
            assert all(torch.equal(now[k], v) for k, v in self.weights.items())
        else:
            self.expect(now)

    @rule(words=words)
    def read_with_averages(self, words: list[str]) -> None:
        """As spaCy evaluates with averaged parameters, and goes on with its own."""
        shim = self.elmo.model.layers[0].shims[0]
        before = self.weights
        averages = {name: 0.5 * value for name, value in before.items()}
        values = {shim.key(name): value.numpy() for name, value in averages.items()}
        with self.nlp.use_params(values):
            self.expect(averages)
            self.compare(self.nlp(Doc(self.nlp.vocab, words=words)))
        self.expect(before)

    # -- settings -----------------------------------------------------------------

    @rule(frozen=st.booleans())
    def freeze(self, frozen: bool) -> None:
        self.elmo.frozen = frozen

    @rule(where=st.sampled_from([None, "memory", "file", "other file"]))
    def cache(self, where: str | None) -> None:
        path = str(self.place / where) if where and "file" in where else where
        refused = where is not None and not self.elmo.frozen
        with contextlib.ExitStack() as stack:
            if refused:
                stack.enter_context(Refusal("EL088"))
            self.elmo.use_layer_cache(path)

    @rule(precision=st.sampled_from(["float32", "half"]))
    def set_precision(self, precision: Any) -> None:
        with contextlib.suppress(ValueError):  # [EL077] not on this processor
            self.elmo.bilm.set_precision(precision)
            self.precision = precision

    # -- copies and files ---------------------------------------------------------

    @rule(words=words)
    def pickle_component(self, words: list[str]) -> None:
        copied = pickle.loads(pickle.dumps(self.elmo))
        self.compare(copied(Doc(copied.vocab, words=words)))

    @rule(words=words)
    def copy_model(self, words: list[str]) -> None:
        copied = self.elmo.model.copy()
        doc = Doc(self.nlp.vocab, words=words)
        layers = copied.predict([doc]).values
        expected = self.right.of(tuple(words))
        bound = TOLERANCES[self.precision] * np.abs(expected).max()
        assert np.abs(layers - expected).max() <= bound

    @rule(to=st.sampled_from(["disk", "bytes"]))
    def save_and_load(self, to: str) -> None:
        if to == "disk":
            self.nlp.to_disk(self.place / "pipeline")
            self.nlp = spacy.load(self.place / "pipeline")
        else:
            new = spacy.blank("xx").from_config(self.nlp.config)
            self.nlp = new.from_bytes(self.nlp.to_bytes())
        self.precision, self.doc = "float32", None
        self.sgd = self.nlp.resume_training()

    @rule()
    def add_or_remove_pipe(self) -> None:
        if "sentencizer" in self.nlp.pipe_names:
            self.nlp.remove_pipe("sentencizer")
        else:
            self.nlp.add_pipe("sentencizer", last=True)

    @rule(text=st.sampled_from([text for text, *_ in TEXTS]))
    def disable_tagger(self, text: str) -> None:
        with self.nlp.select_pipes(disable=["tagger"]):
            self.compare(self.nlp(text))


class Refusal:
    """A block that must be refused with a code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        assert isinstance(error, ValueError) and self.code in str(error)
        return True


# -- the attack -------------------------------------------------------------------

AT_ONCE = 20  # runs, between which the clock is looked at


def attack(run: Run) -> None:
    """Run the machine until time or count is used up."""
    number = 0
    while run.goes_on(run.counts["runs"]):
        with (
            tempfile.TemporaryDirectory(dir=memory_disk()) as folder,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            machine = type(
                "Pipeline", (Pipeline,), {"run": run, "folder": Path(folder)}
            )
            left = AT_ONCE if run.count is None else run.count - run.counts["runs"]
            settings = hypothesis.settings(
                max_examples=min(AT_ONCE, left), stateful_step_count=STEPS,
                deadline=None, database=None, print_blob=False,
                phases=[Phase.generate],  # shrinking takes longer than all the rest
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            chosen = hypothesis.seed(run.seed * 10**6 + number)(machine)
            try:
                run_state_machine_as_test(chosen, settings=settings)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
                notes = "\n".join(getattr(error, "__notes__", []))
                run.finding(f"{type(error).__name__}: {error}\n{notes[-2000:]}")
        run.counts["runs"] += min(AT_ONCE, left)
        number += 1
    run.notes["operations a run, at most"] = STEPS
