"""The command group `spacy elmo`, and what its commands share beside options."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import spacy
import typer
from spacy.cli import app as spacy_app
from wasabi import MarkdownRenderer

from ..errors import Errors
from ..output import show_all
from .options import device
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

    The biLM of a pipeline may be fine-tuned. A pipeline keeps no softmax: it is read
    with the softmax of the weights that it names, if they are still there.

    Args:
        model: Path of a biLM or of a pipeline, or the name of an installed pipeline.
        gpu_id: The number of a GPU, or -1 for the CPU.

    Raises:
        ValueError: [EL215] The pipeline has no `elmo`; also as `BiLM.load` and
            `weights.load_objective`.
    """
    from ..bilm import BiLM, weights

    source: Path | None = model
    if model.exists() and not (model / "meta.json").exists():
        bilm = BiLM.load(model)
    else:
        bilm, source = _bilm_of_pipeline(model)
    softmax = None
    if source is not None:
        softmax = weights.load_objective(source, bilm.config, bilm.vocab)
    on = device(gpu_id)
    return bilm.to(on), None if softmax is None else softmax.to(on)


def _bilm_of_pipeline(name: Path) -> "tuple[BiLM, Path | None]":
    """Return the biLM of the first `elmo` of a pipeline, and the weights that it names,
    if they are there and have the same sizes."""
    from ..bilm import weights
    from ..models import installed
    from ..pipeline import Elmo

    nlp = spacy.load(name)
    elmo = next((pipe for _, pipe in nlp.components if isinstance(pipe, Elmo)), None)
    if elmo is None:
        raise Errors.EL215(name="elmo", source=name)
    bilm, source = elmo.bilm, elmo.named_weights
    found = installed().get(nlp.meta.get("elmo", {}).get(elmo.name, {}).get("weights"))
    if source is None and found is not None:
        source = found.folder
    if source is None or not source.exists():
        return bilm, None
    stored = weights.load(source)
    if stored.config != bilm.config:
        return bilm, None
    bilm.vocab = stored.vocab
    return bilm, source


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, the header first, as a table in Markdown."""
    header, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return MarkdownRenderer().table(body, header) + "\n"
