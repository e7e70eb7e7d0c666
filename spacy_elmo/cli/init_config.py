"""spacy elmo init-config: a whole training configuration, commented."""

import shlex
from pathlib import Path

import typer

from ..output import msg, write
from .group import app, clear_errors


@app.command("init-config")
@clear_errors()
def init_config_cli(
    output: Path = typer.Argument(
        ..., help="Configuration to write (.cfg), '-' for stdout"
    ),
    pipeline: str = typer.Option(
        "tagger",
        "--pipeline",
        "-p",
        help="Components, as 'sentencizer,ner,tagger'",
    ),
    lang: str = typer.Option("en", "--lang", "-l", help="Language of the pipeline"),
    weights: str | None = typer.Option(
        None,
        help="biLM: model folder or file, or a name that ships; else of the language",
    ),
    frozen: bool = typer.Option(
        True, "--frozen/--finetune", help="Whether the biLM stays as it is"
    ),
    elmo: str = typer.Option(
        "input", help="Where it is: 'input', 'output' or 'input,output'"
    ),
    static: str | None = typer.Option(
        None, help="Static vectors: a pipeline that has some, or a package"
    ),
    words: str | None = typer.Option(
        None,
        help="Vectors of words beside ELMo: model folder, file or name; 'none'. By "
        "default those that ship for the language, if the biLM is what ships",
    ),
    layer_cache: str | None = typer.Option(
        None,
        help="Where layers are kept: 'memory' (by default, if frozen), a file, 'none'",
    ),
    force: bool = typer.Option(False, "--force", "-F", help="Write over a file"),
) -> None:
    """A complete configuration for 'spacy train', with ELMo in every component."""
    from ..errors import Errors
    from ..files import write_file
    from ..pipeline import make_config, shipped_words

    if layer_cache is None and frozen:
        layer_cache = "memory"
    if words is None and weights is None:
        words = shipped_words(lang)
    text = make_config(
        [name.strip() for name in pipeline.split(",") if name.strip()],
        lang=lang,
        weights=weights,
        frozen=frozen,
        places=[place.strip() for place in elmo.split(",")],
        static=static,
        words=None if words in ("", "none") else words,
        layer_cache=None if layer_cache in ("", "none") else layer_cache,
    )
    if str(output) == "-":  # as in spaCy: the configuration and nothing else
        write(text)
        return
    if output.exists() and not force:
        raise FileExistsError(Errors.EL130.format(path=output))
    write_file(output, text)
    msg.good(f"Wrote {output}")
    # Not by msg, which would wrap a line that is to be pasted.
    write(
        f"python -m spacy train {shlex.quote(str(output))} --paths.train train.spacy "
        "--paths.dev dev.spacy --output training\n"
    )
