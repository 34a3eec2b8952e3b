"""What is said of an error in the code of users: what it is, and where in their file it came up."""

from __future__ import annotations

import os
import traceback

from launcher.components.source import PACKAGE
from launcher.errors import Interruption

NOT_THEIRS = (KeyboardInterrupt, GeneratorExit, Interruption)
"""What passes through the code of users and is no mistake of it."""


def reason(error: BaseException, path: str) -> str:
    """What it is and where: `KeyError: 'x', line 3 of …/train.py`.

    A ValueError says in full what is wrong, mostly with the arguments: its class goes without saying. Our own
    components have no line: their users do not mend them.
    """
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name}: {error.msg}, line {error.lineno} of {error.filename}"
    says_it_all = isinstance(error, ValueError) and str(error)
    said = str(error) if says_it_all else f"{name}: {error}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    is_ours = path.startswith(PACKAGE + os.sep)
    return f"{said}, line {lines[-1]} of {path}" if lines and not is_ours else said
