"""Describe an error in a user's code: its type and message, and the line in the user's file."""

from __future__ import annotations

import os
import traceback

from launcher.components.source import PACKAGE
from launcher.errors import Interruption

NOT_THEIRS = (KeyboardInterrupt, GeneratorExit, Interruption)
"""Exceptions that pass through a user's code and are not its errors."""


def reason(error: BaseException, path: str) -> str:
    """The error and its line: `KeyError: 'x', line 3 of …/train.py`.

    A ValueError mostly describes wrong arguments completely, so its class is left out. Built-in components
    have no line, as users do not edit them.
    """
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name}: {error.msg}, line {error.lineno} of {error.filename}"
    says_it_all = isinstance(error, ValueError) and str(error)
    said = str(error) if says_it_all else f"{name}: {error}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    is_ours = path.startswith(PACKAGE + os.sep)
    return f"{said}, line {lines[-1]} of {path}" if lines and not is_ours else said
