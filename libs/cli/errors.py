"""What a command can fail with. The message is shown as it is: what is wrong, what to do next."""

from libs.common.errors import PermanentError


class CommandFailed(PermanentError):
    """The command could not do what it was asked for; exit code 1."""


class WrongUsage(PermanentError):
    """The command was asked for something that does not exist; exit code 2."""
