"""spacy elmo init-config: a whole training configuration, commented."""

import shlex
from pathlib import Path

import typer

from ..errors import Errors
from ..output import msg, write
from . import options
from .group import app

PLACES = ("input", "output")


@app.command("init-config")
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
        help="biLM: model folder, file, or name of a shipped model. The default is the "
        "shipped model of the language",
    ),
    frozen: bool = typer.Option(
        True, "--frozen/--finetune", help="Keep the biLM as it is, or train it, too"
    ),
    at: str = typer.Option(
        "input",
        help="Where ELMo's vectors stand: at the input of a component's encoder, at "
        "its output, or 'both'",
    ),
    static: str | None = typer.Option(
        None, help="Static vectors: a folder or package of a pipeline that has some"
    ),
    words: str | None = typer.Option(
        None,
        help="Word vectors beside ELMo: model folder, file, name, or 'none'. The "
        "default is those that ship for the language, beside its shipped biLM",
    ),
    layer_cache: str | None = typer.Option(
        None,
        help="Layer cache for later epochs: 'memory' (the default, if the biLM is "
        "frozen), a file, or 'none'",
    ),
    force: options.Force = False,
) -> None:
    """Write a full configuration for 'spacy train', with ELMo in every component."""
    from ..files import named_path, write_file
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
        places=PLACES if at == "both" else [place.strip() for place in at.split(",")],
        static=static,
        words=None if words in ("", "none") else words,
        layer_cache=None if layer_cache in ("", "none") else layer_cache,
    )
    if str(output) == "-":  # as in spaCy: the configuration and nothing else
        write(text)
        return
    if named_path(output).exists() and not force:
        raise Errors.EL130(path=output)
    write_file(output, text)
    msg.good(f"Wrote {output}")
    # Not by msg, which would wrap a line that is to be pasted.
    write(
        f"python -m spacy train {shlex.quote(str(output))} --paths.train train.spacy "
        "--paths.dev dev.spacy --output training\n"
    )
