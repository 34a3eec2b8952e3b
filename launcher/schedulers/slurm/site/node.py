"""What the programs on the nodes share: files that appear whole, lines of output, the end of a parent.

Python 3.6 and its standard library are enough.
"""

import ctypes
import json
import os
import time
from typing import Any

from launcher.schedulers.appfolder import AppFolder

PR_SET_PDEATHSIG = 1


def now_ns() -> int:
    return int(time.time() * 1e9)


def say(text: str) -> None:
    """A line in the output of the Slurm job."""
    try:
        os.write(2, (text + "\n").encode(errors="replace"))
    except OSError:
        pass


def put(path: str, text: str) -> None:
    """Write a file whole."""
    folder, name = os.path.split(path)
    AppFolder(folder).write(name, text)


def link(path: str, text: str) -> bool:
    """Make a file unless it is there; whether this call made it."""
    folder, name = os.path.split(path)
    return AppFolder(folder).link(name, text)


def read_json(path: str) -> Any:
    """The contents of a file; None where it is missing or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass
