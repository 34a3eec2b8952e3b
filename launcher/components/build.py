"""Call a user's component; every exception that it raises becomes one clear error."""

from __future__ import annotations

from launcher.components.call import ComponentArgs, call
from launcher.components.component import Component
from launcher.components.failure import NOT_THEIRS, reason
from launcher.components.output import stdout_to_stderr
from launcher.errors import LauncherError
from launcher.specs.app import AppDef


class ComponentFailedException(LauncherError):
    """A component raised instead of returning an AppDef; the message says what and where."""


def build(component: Component, arguments: ComponentArgs) -> AppDef:
    """The app that a component makes. Its output goes to stderr: stdout may be a document.

    Raises only LauncherError, and the exceptions of signals.
    """
    function = component.fn
    try:
        with stdout_to_stderr():
            return call(function, arguments, component.name)
    except (LauncherError, *NOT_THEIRS):
        raise
    except BaseException as error:
        message = f"component `{component.name}` failed: {reason(error, component.path)}"
        raise ComponentFailedException(message) from error
