"""Redirect standard output to stderr while a user's code runs, because stdout may be a document."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from threading import Lock
from typing import TextIO

from launcher.dataclass import dataclass


@dataclass(slots=True)
class _Away:
    """The nesting depth of redirections, and the original stdout."""

    times: int = 0
    stdout: TextIO | None = None
    descriptor: int | None = None


_lock = Lock()
_away = _Away()


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect output to stderr meanwhile: of sys.stdout, descriptor 1 and child processes.

    This affects the whole process: while one thread is inside, the others print to stderr too, and the last
    one to leave restores both. A closed descriptor 1 stays closed; where sys.stdout does not write to it (a
    notebook, a test), each is redirected separately.
    """
    with _lock:
        if not _away.times:
            _send_away()
        _away.times += 1
    try:
        yield
    finally:
        with _lock:
            _away.times -= 1
            if not _away.times:
                _put_back()


def _send_away() -> None:
    _flush()
    _away.stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        _away.descriptor = fcntl(1, F_DUPFD_CLOEXEC, 3)  # 2 may be free, and is no place to keep it
    except OSError:
        _away.descriptor = None
        return
    try:
        os.dup2(2, 1)
    except OSError:  # nor is there a stderr
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _put_back() -> None:
    _flush()  # user code may hold the old stdout, and its buffer must not end up in the document
    if _away.descriptor is not None:
        os.dup2(_away.descriptor, 1)
        os.close(_away.descriptor)
    sys.stdout = _away.stdout
    _away.stdout = _away.descriptor = None


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__, _away.stdout):
        if stream is None:
            continue
        with suppress(OSError, ValueError):  # broken, closed
            stream.flush()
