"""Command lines, parsed without running the command."""

from typer.main import get_command


def parse(app, arguments):
    """Return the innermost command that arguments name, and its context.

    Raises what click raises where an option is unknown or missing.
    """
    command = get_command(app)
    context = command.make_context(command.name, list(arguments))
    while hasattr(command, "resolve_command"):  # a group of commands
        given = [*context._protected_args, *context.args]  # noqa: SLF001
        name, command, arguments = command.resolve_command(context, given)
        context = command.make_context(name, arguments, parent=context)
    return command, context
