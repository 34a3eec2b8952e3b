"""The output of a replica, in files. Python >= 3.6, the standard library alone."""

import os
from typing import Any

from launcher.schedulers.slurm.site.node import now_ns


class Log:
    """The output of a replica, and the index with the time and stream of each part."""

    def __init__(self, stem: str, on_loss: Any) -> None:
        self._on_loss = on_loss
        self._files: dict = {}
        self._lost = False
        self._stem = stem
        self._ends = {".log": 0, ".index": 0}

    def mark(self, kind: str) -> bool:
        """Write an index line for the output that follows; False when the line is lost."""
        line = "{} {} {}\n".format(self._end(".log"), now_ns(), kind)
        at = self._end(".index")
        if self._write(".index", line.encode()):
            return True
        try:
            os.ftruncate(self._files[".index"], at)
            self._ends[".index"] = at
        except (OSError, KeyError):
            pass
        return False

    def add(self, kind: str, data: memoryview) -> None:
        if self.mark(kind):
            self._write(".log", data)

    def open(self) -> None:
        """Open the log at once, so that a replica without output has an empty log."""
        for name in self._ends:
            self._open(name)

    def _end(self, name: str) -> int:
        self._open(name)
        return self._ends[name]

    def _open(self, name: str) -> bool:
        if name not in self._files:
            try:
                path = self._stem + name
                fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._loss(error)
                return False
            self._files[name] = fd
            self._ends[name] = os.fstat(fd).st_size
        return True

    def _write(self, name: str, data: Any) -> bool:
        """Append data; data that does not fit is lost, as a replica must not wait for space."""
        if not self._open(name):
            return False
        rest = memoryview(data)
        try:
            while rest:
                count = os.write(self._files[name], rest)
                self._ends[name] += count
                rest = rest[count:]
        except OSError as error:
            self._loss(error)
            return False
        return True

    def _loss(self, error: OSError) -> None:
        if not self._lost:
            self._lost = True
            self._on_loss(error)
