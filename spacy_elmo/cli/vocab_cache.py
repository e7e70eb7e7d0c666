"""spacy elmo vocab-cache: a command of version 0.1."""

from .group import app, clear_errors

ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command("vocab-cache", hidden=True, context_settings=ANY_ARGUMENTS)
def vocab_cache_cli() -> None:
    """Say what took the place of this command."""
    from ..errors import Errors

    with clear_errors():
        raise ValueError(Errors.EL131)
