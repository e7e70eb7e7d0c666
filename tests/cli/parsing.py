"""Command lines, parsed without running the command."""

from typer.main import get_command


def parse(app, arguments):
    """Return the innermost command that arguments name, and its context.

    Raises what click raises where an option is unknown or missing.
    """
    command = get_command(app)
    context = command.make_context(command.name, list(arguments))
    while hasattr(command, "resolve_command"):  # a group of commands
        known = vars(context)  # click 8.1 has no underscore
        first = known.get("_protected_args", known.get("protected_args"))
        given = [*first, *context.args]
        name, command, arguments = command.resolve_command(context, given)
        context = command.make_context(name, arguments, parent=context)
    return command, context
