"""The command group `spacy elmo`, and what its commands share beside options."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from spacy.cli import app as spacy_app
from wasabi import MarkdownRenderer

from ..errors import Errors
from ..output import show_all
from .renamed import Group

if TYPE_CHECKING:
    from ..bilm import BiLM
    from ..bilm.objectives import Objective

app = typer.Typer(
    name="elmo",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
spacy_app.add_typer(app)


@app.callback()
def _start() -> None:
    """Train, convert and look into ELMo biLMs."""
    show_all()


def load_bilm(model: Path, gpu_id: int) -> "tuple[BiLM, Objective | None]":
    """Return a biLM, and its softmax if it has one, on a GPU or the CPU.

    The biLM of a pipeline may be fine-tuned. A pipeline keeps no softmax. Its biLM is
    read with the softmax of the weights that the pipeline names, if they are still
    there and have the same sizes.

    Args:
        model: A biLM or a pipeline: its path, or the name of an installed one.
        gpu_id: The number of a GPU, or -1 for the CPU.

    Raises:
        ValueError: [EL215] The pipeline has no `elmo`; also as `BiLM.load` and
            `weights.load_objective`.
    """
    from ..bilm import BiLM, weights
    from ..machine import device_name
    from ..models import find, installed
    from ..pipeline import elmo_of, load_pipeline

    source: Path | None
    nlp = load_pipeline(model)
    if nlp is None:
        source = find(model)
        bilm = BiLM.load(source)
    else:
        elmo = elmo_of(nlp)
        if elmo is None:
            raise Errors.EL215(name="elmo", source=model)
        bilm, source = elmo.bilm, elmo.named_weights
        recorded = nlp.meta.get("elmo", {}).get(elmo.name, {}).get("weights")
        if source is None and (shipped := installed().get(str(recorded))):
            source = shipped.folder
        stored = weights.load(source) if source and source.exists() else None
        if stored is None or stored.config != bilm.config:
            source = None
        else:
            bilm.vocab = stored.vocab
    softmax = None
    if source is not None:
        softmax = weights.load_objective(source, bilm.config, bilm.vocab)
    on = device_name(gpu_id)
    return bilm.to(on), None if softmax is None else softmax.to(on)


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, the header first, as a table in Markdown."""
    header, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return MarkdownRenderer().table(body, header) + "\n"
