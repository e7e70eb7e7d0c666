"""A backward pass that waits until every listener has added its gradient.

In spaCy's own protocol the last listener runs the upstream's backward pass, so when
that one is frozen or disabled the upstream silently learns nothing. Here listeners only
add, and the component runs the pass when it finishes its update.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from operator import is_
from typing import Any

from spacy.tokens import Doc
from thinc.api import get_array_module

from .layer_batch import LayerBatch

Backprop = Callable[[LayerBatch], Any]


@dataclass(eq=False)
class Awaited:
    """A forward pass: its Docs, the number of tokens of each, its backward pass, and
    the gradient of its layers, summed up over the listeners; None as long as there is
    none."""

    docs: list[Doc]
    lengths: list[int]
    backprop: Backprop
    gradient: LayerBatch | None = None

    def add(self, docs: list[Doc], d_layers: LayerBatch) -> None:
        """Add the gradient that a listener has for these Docs, or some of them."""
        all_of_them = len(docs) == len(self.docs) and all(map(is_, docs, self.docs))
        if self.gradient is None:
            if all_of_them:
                self.gradient = d_layers
                return
            n_layers, _, width = d_layers.values.shape
            xp = get_array_module(d_layers.values)
            zeros = xp.zeros((n_layers, sum(self.lengths), width), dtype="float32")
            self.gradient = LayerBatch(zeros, self.lengths)
        if all_of_them:
            sum_LND: Any = self.gradient.values
            sum_LND += d_layers.values
            return
        which = {id(doc): d for d, doc in enumerate(self.docs)}
        for doc, d_LTD in zip(docs, d_layers):
            if id(doc) in which:
                sum_LTD: Any = self.gradient[which[id(doc)]]
                sum_LTD += d_LTD


class DeferredBackward:
    """The forward passes of a component whose gradients are to come."""

    def __init__(self) -> None:
        self._awaited: list[Awaited] = []
        self._of_doc: weakref.WeakKeyDictionary[Doc, Awaited] = (
            weakref.WeakKeyDictionary()
        )

    def __len__(self) -> int:
        """Number of Docs that gradients are awaited for."""
        return len(self._of_doc)

    @property
    def is_waiting(self) -> bool:
        """Whether a batch has got no gradient yet."""
        return bool(self._awaited)

    def expect(self, docs: list[Doc], lengths: list[int], backprop: Backprop) -> None:
        """Remember a forward pass whose gradients are to come."""
        awaited = Awaited(docs, lengths, backprop)
        self._of_doc.update(dict.fromkeys(docs, awaited))
        self._awaited.append(awaited)

    def add(self, docs: list[Doc], d_layers: Callable[[], LayerBatch]) -> None:
        """Add the gradient that a listener has for the layers of Docs, if one is
        awaited for them."""
        passes = {self._of_doc.get(doc): None for doc in docs}
        for awaited in passes:
            if awaited is not None:
                awaited.add(docs, d_layers())

    def forget(self) -> None:
        """Await no gradients any more."""
        self._awaited.clear()
        self._of_doc.clear()

    def run(self) -> None:
        """Run the backward passes of the batches that have got gradients."""
        # The newest may wait for listeners to come; older ones had their chance.
        waiting = [awaited for awaited in self._awaited if awaited.gradient is None]
        awaited_before, self._awaited = self._awaited, waiting[-1:]
        for awaited in awaited_before:
            if awaited.gradient is not None:
                awaited.backprop(awaited.gradient)
        self._of_doc = weakref.WeakKeyDictionary(
            {doc: awaited for awaited in self._awaited for doc in awaited.docs}
        )
