"""spacy elmo init-config: a whole training configuration, commented."""

from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors


@app.command("init-config")
def init_config_cli(
    output: Path = typer.Argument(..., help="Configuration to write (.cfg)"),
    pipeline: str = typer.Option("tagger", help="Components, such as 'ner,tagger'"),
    lang: str = typer.Option("en", help="Language of the pipeline"),
    weights: str | None = typer.Option(
        None, help="Model folder of the biLM, in any format; else the one that ships"
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
    layer_cache: str | None = typer.Option(
        "memory", help="Where layers are kept: 'memory', a file, or 'none'"
    ),
    force: bool = typer.Option(False, "--force", help="Write over a file"),
) -> None:
    """A complete configuration for 'spacy train', with ELMo in every component."""
    from ..component.training_config import make_config

    with clear_errors():
        text = make_config(
            [name.strip() for name in pipeline.split(",") if name.strip()],
            lang=lang,
            weights=weights,
            frozen=frozen,
            places=[place.strip() for place in elmo.split(",")],
            static=static,
            layer_cache=None if layer_cache in ("", "none") else layer_cache,
        )
        if output.exists() and not force:
            raise FileExistsError(f"'{output}' is there already; --force replaces it.")
        output.write_text(text, encoding="utf-8")
    msg.good(f"Wrote {output}")
    msg.text(
        f"python -m spacy train {output} --paths.train train.spacy --paths.dev "
        "dev.spacy --output training"
    )
