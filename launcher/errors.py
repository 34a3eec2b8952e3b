"""The exceptions of launcher. Each has an exit code and, for programs, a code; and it may have a hint.

::

    LauncherError                1   anything that went wrong and has a message for the user
    ├── UsageError              64   the command line is wrong, or names a scheduler, component or run option
    │                                that there is not
    ├── JobFileError             6   a job file is wrong; carries the diagnostics
    ├── BlockedError             3   approval is needed, or a policy forbids the step
    ├── StaleError               4   attempts or engines are not those that the plan was made for
    ├── LockTimeoutError         7   another apply held the lock for too long
    ├── AppNotFoundError         1   no job or app has that name
    ├── StateError               1   LAUNCHER_HOME cannot be read or written
    │   ├── DamagedError         1   a file of it is no sound database
    │   └── FullDiskError        1   there is no room for its database
    ├── SecretError              1   a secret cannot be read; names it, never its value
    ├── CommandError             1   an external command failed
    └── SchedulerError           1   an engine refused or failed
        ├── StartError           1   a replica could not be started; names role and argv
        └── ReservedError        1   the app id is taken; says by whom

The exceptions that users of the Python API catch by name (`InvalidRunConfigException`,
`UnknownAppException`, …) live in `launcher.specs` and derive from these. In a job file the same mistakes are
diagnostics (6).
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs milliseconds at start-up and is not needed at run time here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


NOT_SUCCEEDED = 5
"""Exit code of commands that waited for an app which did not succeed. No exception has this code."""


class LauncherError(Exception):
    """An error with a message for the user.

    Args:
        message: the problem, in one or more lines, without a trailing full stop.
        hint: the correct form, or what to do next. Tracebacks show it as well, on Python 3.11 and above.

    Attributes:
        exit_code: of a command that fails with it.
        code: names the kind of error in JSON. Stable; a class without one has that of the class above it.
    """

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.__notes__ = [f"hint: {hint}"]

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Interruption(BaseException):
    """A signal asks this process to end. Like KeyboardInterrupt, this is no error of the running code."""


class Terminated(Interruption):
    """SIGTERM was received by a command, which turns the signal into this exception (`launcher.cli.main`)."""


class UsageError(LauncherError):
    """The command line is wrong."""

    exit_code = 64
    code = "usage"


class JobFileError(LauncherError):
    """Job files are wrong and the user can fix them.

    Attributes:
        diagnostics: every problem found, in file order (`launcher.jobfile.Diagnostic`).
    """

    exit_code = 6
    code = "job-file"

    def __init__(self, message: str, *, diagnostics: Sequence[Any] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.diagnostics = tuple(diagnostics)


class BlockedError(LauncherError):
    """A step needs approval, or a policy of the job forbids it."""

    exit_code = 3
    code = "blocked"


class StaleError(LauncherError):
    """Attempts or engines are not those that the plan was made for."""

    exit_code = 4
    code = "stale"


class LockTimeoutError(LauncherError):
    """Another apply held the lock for longer than the given timeout."""

    exit_code = 7
    code = "lock-timeout"


class AppNotFoundError(LauncherError):
    """No job or app has that name, or it has no such attempt."""

    code = "app-not-found"


class StateError(LauncherError):
    """LAUNCHER_HOME cannot be used: unwritable, full, or written by a newer version."""

    code = "state"


class DamagedError(StateError):
    """A file in LAUNCHER_HOME is no sound database."""

    code = "damaged"

    def __init__(self, message: str) -> None:
        hint = "bring it back from a backup; or move it away, and launcher forgets the outcomes so far"
        super().__init__(message, hint=hint)


class FullDiskError(StateError):
    """A database in LAUNCHER_HOME cannot be written, since the disk is full."""

    def __init__(self, message: str) -> None:
        hint = "is the disk full, or over its quota? `launcher gc --dry-run` shows what launcher can remove"
        super().__init__(message, hint=hint)


class SecretError(LauncherError):
    """A secret cannot be read. The message names its reference, never its value."""

    code = "secret"


class CommandError(LauncherError):
    """An external command failed. The message shows argv, exit code, stdout and stderr."""

    code = "command"


class SchedulerError(LauncherError):
    """An engine refused a request, or failed."""

    code = "scheduler"


class UnreachableError(SchedulerError):
    """The engine of a scheduler cannot be reached, or does not answer."""


class StartError(SchedulerError):
    """A replica could not be started; the whole attempt was removed."""

    code = "start"


class ReservedError(SchedulerError):
    """The app id belongs to another client: `owner`. `state` is the state of that app."""

    code = "reserved"

    def __init__(self, app_id: str, state: str, owner: str = "") -> None:
        super().__init__(
            f"{app_id} is taken ({state})" + (f" by {owner}" if owner else ""),
            hint="plan again: another client applied the same job meanwhile",
        )
        self.app_id = app_id
        self.owner = owner
        self.state = state


def said_by(error: BaseException, path: str) -> str:
    """Return an exception of a user's code and its line in the file: `KeyError: 'x', line 3 of …/train.py`.

    A ValueError mostly describes wrong arguments completely, so its class is left out.
    """
    from traceback import extract_tb

    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name}: {error.msg}, line {error.lineno} of {error.filename}"
    says_it_all = isinstance(error, ValueError) and str(error)
    said = str(error) if says_it_all else f"{name}: {error}"
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == path]
    return f"{said}, line {lines[-1]} of {path}" if lines else said
