"""Call a component that somebody else wrote: whatever it raises becomes one clear error."""

from __future__ import annotations

import contextlib
import sys
import traceback

from launcher.components.call import ComponentArgs, call
from launcher.components.component import Component
from launcher.errors import LauncherError
from launcher.specs.app import AppDef


class ComponentFailedException(LauncherError):
    """A component raised instead of returning an AppDef; the message says what and where."""


def build(component: Component, arguments: ComponentArgs) -> AppDef:
    """The app that a component makes. What it prints goes to stderr: stdout may be a document.

    Raises LauncherError, and nothing else.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return call(component.fn, arguments)
    except LauncherError:
        raise
    except (Exception, SystemExit) as error:
        message = f"component `{component.name}` failed: {_why(error, component.path)}"
        raise ComponentFailedException(message) from error


def _why(error: BaseException, path: str) -> str:
    """What a component says of its arguments, or where in it the mistake is."""
    if isinstance(error, ValueError) and error.args:
        return str(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f", line {lines[-1]} of {path}" if lines else ""
    return f"{type(error).__name__}: {error}{where}"
