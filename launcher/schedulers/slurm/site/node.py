"""What the programs on the nodes share: files that appear whole, lines of output, the end of a parent.

Python 3.6 and its standard library are enough.
"""

import ctypes
import json
import os
import socket
import time
from typing import Any

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
    temp = _temporary(path)
    try:
        with open(temp, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(temp, path)
    except OSError:
        _unlink(temp)
        raise


def link(path: str, text: str) -> bool:
    """Make a file unless it is there; whether this call made it."""
    temp = _temporary(path)
    try:
        with open(temp, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temp, path)
        except FileExistsError:
            return os.stat(temp).st_nlink == 2  # the answer to an earlier request got lost
        return True
    finally:
        _unlink(temp)


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


def _temporary(path: str) -> str:
    """A hidden name in the same folder that no other process uses."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{socket.gethostname()}.{os.getpid()}.{now_ns()}")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
