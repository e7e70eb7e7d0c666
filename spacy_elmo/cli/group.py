"""The command group `spacy elmo`, and the options that its commands share."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import spacy
import typer
from spacy.cli import app as spacy_app
from spacy.util import is_package
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


# Context settings of a command that passes on the arguments that it does not know.
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def model_folder(model: Path) -> Path:
    """Return the path of a model. It may be the name of a model that ships."""
    from ..models import find

    return find(model)


def model_or_pipeline(model: Path) -> Path:
    """Return the path of a model, or the name of an installed pipeline."""
    return model if is_package(str(model)) else model_folder(model)


def check_gpu(gpu_id: int | None) -> int | None:
    """Return a GPU ID, or raise ValueError [EL151] if there is no such GPU."""
    if gpu_id is not None and gpu_id >= 0:
        from torch.cuda import device_count

        if gpu_id >= device_count():
            raise Errors.EL151(gpu_id=gpu_id, n=device_count())
    return gpu_id


def device(gpu_id: int) -> str:
    """Return torch's name for a GPU ID: "cuda:0", or "cpu" for -1."""
    return "cpu" if gpu_id < 0 else f"cuda:{gpu_id}"


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


TEXT = (
    "Files of text, .jsonl, .conllu or .spacy, also .gz, .xz, .bz2 and .zst; folders "
    "of such files"
)
MODEL = "Model folder, or a file in it, in any format, or a name that ships"
Model = Annotated[Path, typer.Argument(callback=model_folder, help=MODEL)]
AnyModel = Annotated[
    Path,
    typer.Argument(callback=model_or_pipeline, help=f"{MODEL}; or a trained pipeline"),
]
Text = Annotated[list[Path], typer.Argument(help=TEXT)]
Kind = Annotated[
    str | None,
    typer.Option(help="text, jsonl, conllu or spacy, where names don't say it"),
]
Lang = Annotated[str, typer.Option("--lang", "-l", help="Language of the tokenizer")]
Tokenizer = Annotated[str, typer.Option(help="'spacy' or 'whitespace'")]
Sentences = Annotated[bool, typer.Option(help="Split lines at sentence ends")]
GPU_HELP = "GPU ID or -1 for CPU"
GpuId = Annotated[
    int, typer.Option("--gpu-id", "-g", callback=check_gpu, help=GPU_HELP)
]
NProcess = Annotated[
    int, typer.Option("--n-process", "-n", min=1, help="Processes on this machine")
]
Force = Annotated[bool, typer.Option("--force", "-F", help="Replace what is there")]
Silent = Annotated[bool, typer.Option("--silent", "-S", help="Show no progress")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, the header first, as a table in Markdown."""
    header, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return MarkdownRenderer().table(body, header) + "\n"
