"""What can go wrong with the embedded platform. Every message is one sentence with a way out.

Standard library only: the set-up runs before any package is installed.
"""

from libs.common.errors import PermanentError


class LocalError(PermanentError):
    """Root of the embedded platform's own errors; the message is shown as it is."""


class SetupFailed(LocalError):
    """A step of the set-up did not work."""


class StartFailed(LocalError):
    """The platform could not be started, and what had been started was stopped again."""


class AlreadyRunning(LocalError):
    """Another supervisor holds the home folder."""


class NotRunning(LocalError):
    """No platform runs in the home folder."""
