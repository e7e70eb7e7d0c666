"""The command group `spacy elmo`, and what its commands share."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.cli import app as spacy_app

from ..output import msg, show_all

if TYPE_CHECKING:
    from ..bilm import BiLM

app = typer.Typer(
    name="elmo",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
spacy_app.add_typer(app)


@app.callback()
def _start() -> None:
    """Train, convert and look into ELMo biLMs."""
    show_all()


# Of a command whose arguments are all passed on.
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


@contextmanager
def clear_errors() -> Iterator[None]:
    """Show what went wrong as one message, not as a traceback, and exit with 1."""
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError) as error:
        msg.fail(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        msg.warn("Stopped. What was saved before is whole; run it again to go on.")
        sys.exit(130)


@clear_errors()
def model_folder(model: Path) -> Path:
    """Return the path of a model: itself, or that of a shipped model by its name."""
    from ..models import find

    return find(model)


@clear_errors()
def check_gpu(gpu_id: int | None) -> int | None:
    """Return the number of a GPU that is there, of the CPU, or None."""
    if gpu_id is not None and gpu_id >= 0:
        from torch.cuda import device_count

        from ..errors import Errors

        if gpu_id >= device_count():
            raise ValueError(Errors.EL151.format(gpu_id=gpu_id, n=device_count()))
    return gpu_id


def device(gpu_id: int) -> str:
    """Return the name that torch has for a GPU or the CPU."""
    return "cpu" if gpu_id < 0 else f"cuda:{gpu_id}"


def load_bilm(model: Path, gpu_id: int) -> "BiLM":
    """Return a model, on a GPU or the CPU. Raises as `BiLM.load`."""
    from ..bilm import BiLM

    return BiLM.load(model).to(device(gpu_id))


TEXT = (
    "Files of text, .jsonl, .conllu or .spacy, also .gz, .xz, .bz2 and .zst; folders "
    "of such files"
)
MODEL = "Model folder, or a file in it, in any format, or a name that ships"
Model = Annotated[Path, typer.Argument(callback=model_folder, help=MODEL)]
LANG = typer.Option("--lang", "-l", help="Language of the tokenizer")
Lang = Annotated[str, LANG]
Tokenizer = Annotated[str, typer.Option(help="'spacy' or 'whitespace'")]
Sentences = Annotated[bool, typer.Option(help="Split lines at sentence ends")]
GPU = {"callback": check_gpu, "help": "GPU ID or -1 for CPU"}
GpuId = Annotated[int, typer.Option("--gpu-id", "-g", **GPU)]
Silent = Annotated[bool, typer.Option("--silent", "-S", help="Show no progress")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, the header first, as a table in Markdown."""
    header, *body = rows
    lines = []
    for row in (header, ["---"] * len(header), *body):
        cells = (cell.replace("|", "\\|") for cell in row)
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)
