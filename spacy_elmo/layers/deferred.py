"""A backward pass that waits until every listener has added its gradient.

In spaCy's own protocol the last listener runs the upstream's backward pass, so when
that one is frozen or disabled the upstream silently learns nothing. Here listeners only
add, and the component runs the pass when it finishes its update.
"""

import weakref
from collections.abc import Callable

from spacy.tokens import Doc
from thinc.types import Floats3d

Backprop = Callable[[list[Floats3d]], list]


class DeferredBackward:
    """alloc: makes zeros for the layers of a Doc that no listener has read."""

    def __init__(self, alloc: Callable[[Doc], Floats3d]) -> None:
        self._alloc = alloc
        self._batches: list[tuple[list[Doc], Backprop]] = []
        # Gradient of each Doc's layers, summed up over the listeners; None as yet.
        self._gradients: weakref.WeakKeyDictionary[Doc, Floats3d | None]
        self._gradients = weakref.WeakKeyDictionary()

    def __contains__(self, doc: Doc) -> bool:
        return doc in self._gradients

    def __len__(self) -> int:
        return len(self._gradients)

    @property
    def is_waiting(self) -> bool:
        """Whether a batch has got no gradient yet."""
        return bool(self._batches)

    def expect(self, docs: list[Doc], backprop: Backprop) -> None:
        """Remember a forward pass whose gradients are to come."""
        self._gradients.update({doc: None for doc in docs})
        self._batches.append((docs, backprop))

    def add(self, doc: Doc, d_layers: Floats3d) -> None:
        so_far = self._gradients.get(doc)
        self._gradients[doc] = d_layers if so_far is None else so_far + d_layers

    def forget(self) -> None:
        self._batches.clear()
        self._gradients.clear()

    def run(self) -> None:
        """Run the backward passes of the batches that have got gradients."""
        waiting = []
        for docs, backprop in self._batches:
            gradients = [self._gradients.get(doc) for doc in docs]
            if all(gradient is None for gradient in gradients):
                waiting.append((docs, backprop))
                continue
            backprop(
                [
                    self._alloc(doc) if gradient is None else gradient
                    for doc, gradient in zip(docs, gradients)
                ]
            )
            for doc in docs:
                self._gradients.pop(doc, None)
        # The newest may wait for listeners to come; older ones had their chance.
        self._batches = waiting[-1:]
