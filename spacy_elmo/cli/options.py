"""The options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

# Context settings of a command that passes on the arguments that it does not know.
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def model_folder(model: Path) -> Path:
    """Return the path of a model. It may be the name of a model that ships."""
    from ..models import find

    return find(model)


def check_gpu(gpu_id: int | None) -> int | None:
    """Return a GPU ID. Raises ValueError [EL151] if there is no such GPU."""
    if gpu_id is not None and gpu_id >= 0:
        from ..machine import device_name

        device_name(gpu_id)
    return gpu_id


TEXT = (
    "Files of text, .jsonl, .conllu or .spacy, also .gz, .xz, .bz2 and .zst; folders "
    "of such files"
)
MODEL = "Model folder, or a file in it, in any format, or a name that ships"
Model = Annotated[Path, typer.Argument(callback=model_folder, help=MODEL)]
AnyModel = Annotated[Path, typer.Argument(help=f"{MODEL}; or a trained pipeline")]
Text = Annotated[list[Path], typer.Argument(help=TEXT)]
Kind = Annotated[
    str | None,
    typer.Option(help="text, jsonl, conllu or spacy, where names don't say it"),
]
Lang = Annotated[str, typer.Option("--lang", "-l", help="Language of the tokenizer")]
Tokenizer = Annotated[str, typer.Option(help="'spacy' or 'whitespace'")]
Sentences = Annotated[bool, typer.Option(help="Split lines at sentence ends")]
GPU = typer.Option("--gpu-id", "-g", callback=check_gpu, help="GPU ID or -1 for CPU")
GpuId = Annotated[int, GPU]
NProcess = Annotated[
    int, typer.Option("--n-process", "-n", min=1, help="Processes on this machine")
]
Force = Annotated[bool, typer.Option("--force", "-F", help="Replace what is there")]
Silent = Annotated[bool, typer.Option("--silent", "-S", help="Show no progress")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
