"""A stream of Docs that are annotated in parts, each checked while the next is read."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from spacy.tokens import Doc

from ..bilm import compute_what_fits
from .layer_batch import nothing

# Annotates Docs, and returns a check of their vectors, which waits for a GPU.
Annotate = Callable[[Sequence[Doc]], Callable[[], None]]
Handle = Callable[[Sequence[Doc], Exception], None]


def annotated(
    groups: Iterable[list[Doc]], annotate: Annotate, handle: Handle
) -> Iterator[Doc]:
    """Yield Docs in order once they are annotated, each group in as few parts as fit
    memory. Docs that fail go to `handle`; those whose check fails were yielded."""
    unchecked: Sequence[Doc] = []
    check: Callable[[], None] = nothing

    def check_before() -> None:
        try:
            check()
        except Exception as error:  # noqa: BLE001 (spaCy's handlers get all)
            handle(unchecked, error)

    for group in groups:
        docs: Sequence[Doc] = group
        parts = compute_what_fits([docs], annotate, len)
        while docs:
            try:
                some, check_next = next(parts)
            except Exception as error:  # noqa: BLE001
                handle(docs, error)
                break
            check_before()
            unchecked, check, docs = some, check_next, docs[len(some) :]
            yield from some
    check_before()
