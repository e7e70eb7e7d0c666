"""Commands of version 0.1, which say what took their place."""

import typer

from .benchmark import benchmark_app
from .group import ANY_ARGUMENTS, app, clear_errors


@app.command("vocab-cache", hidden=True, context_settings=ANY_ARGUMENTS)
@clear_errors()
def _vocab_cache() -> None:
    from ..errors import Errors

    raise ValueError(Errors.EL131)


@clear_errors()
def _run_from_the_clone(ctx: typer.Context) -> None:
    from ..errors import Errors

    name = ctx.info_name or ""
    raise ValueError(Errors.EL110.format(name=name, module=name.replace("-", "_")))


for _name in ("pretrain", "ngram", "pipe", "scaling", "layer-cache"):
    benchmark_app.command(_name, hidden=True, context_settings=ANY_ARGUMENTS)(
        _run_from_the_clone
    )
