"""Compare the input files of an app with those of its plan, in a process beside the supervisor.

Hashing takes as long as reading: the supervisor's loop never waits for it, nor does the supervisor load more
modules. The process prints `=` and the changes, "" for none, once it has compared everything.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import sys

from launcher import paths
from launcher.holding.phrases import INPUTS_CUT_SHORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launcher.schedulers.loop import Loop

NOT_COMPARED = "its input files could not be compared when it ended"

_MAIN = (
    f"import sys; sys.path.insert(0, {paths.IMPORT_ROOT!r});"
    " from launcher.schedulers.local.comparison import main; main()"
)


class Comparison:
    """The input files of one app, and the process that compares them at the moment.

    Args:
        asked: `args`, the fields of an InputRef, globs last; and `env`, the variables that `main` needs.
    """

    def __init__(self, loop: Loop, asked: Mapping[str, list[str]]) -> None:
        self._loop = loop
        self.asked = asked
        self._argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _MAIN]
        self._argv += [str(os.getpid()), *asked["args"]]
        self._env = dict(each.split("=", 1) for each in asked["env"])
        self._pid = 0
        self._said = b""
        self._otherwise = NOT_COMPARED

    def begin(self, then: Callable[[str], None]) -> None:
        """Compare, and call `then` with the changed files, "" for none."""
        self._said, self._otherwise = b"", NOT_COMPARED
        read, write = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, write, 1)]
        try:
            self._pid = os.posix_spawn(self._argv[0], self._argv, self._env, file_actions=actions)
        except OSError:
            os.close(read)
            self._loop.after(0, lambda: then(NOT_COMPARED))
            return
        finally:
            os.close(write)
        os.set_blocking(read, False)
        self._loop.watch(read, lambda: self._receive(read, then))

    def cut_short(self) -> bool:
        """End a running comparison without a result; False when there is none."""
        if not self._pid:
            return False
        self._otherwise = INPUTS_CUT_SHORT
        os.kill(self._pid, _signal.SIGKILL)
        return True

    def _receive(self, fd: int, then: Callable[[str], None]) -> None:
        try:
            part = os.read(fd, 65536)
        except BlockingIOError:
            return
        self._said += part
        if not part:
            self._loop.remove(fd)
            os.close(fd)
            self._pid = 0
            is_whole = self._said.startswith(b"=") and self._said.endswith(b"\n")
            then(self._said[1:-1].decode(errors="replace") if is_whole else self._otherwise)


def main() -> None:
    """Compare, and print `=` and the changes. Arguments: the supervisor's pid, the fields of an InputRef.

    It ends with the supervisor.
    """
    from launcher.schedulers.local import kernel
    from launcher.specs.inputs import UNDER  # only this process needs these imports, not the supervisor
    from launcher.specs.launch import InputRef
    from launcher.workspace.inputs import changed_since

    parent, digest, directory, root, *globs = sys.argv[1:]
    kernel.die_with_parent()
    if os.getppid() == int(parent):
        print(f"={changed_since(InputRef(digest, directory, root, tuple(globs)), UNDER)}")
