"""Compare the files of an app with those of its plan, and hash the files of its output folder.

Its input files are compared at its start and at its end. A workspace that its replicas run in is compared at
the start alone: what the app itself writes there is no reason to run it again.

Hashing takes as long as reading: a process beside the supervisor does it, so that the supervisor's loop never
waits, nor does the supervisor load more modules. The process prints `=` and the digest of the output folder,
and on the next line the changes, "" for none, once it has read everything.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import sys

from launcher import paths
from launcher.holding.events import INPUTS_CUT_SHORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launcher.schedulers.loop import Loop

NOT_COMPARED = "its files could not be compared when it started or ended"


class Comparison:
    """The files of one app, and the process that reads them at the moment.

    Args:
        asked: `args`, the fields of an InputRef, globs last, empty without input files; `workspace`, digest
            and path, where it is compared; and `env`, the variables that `main` needs.

    Attributes:
        output_digest: the result of `contents.output_digest` once an output folder was read; "" before.
    """

    def __init__(self, loop: Loop, asked: Mapping[str, list[str]]) -> None:
        self._loop = loop
        self.asked = asked
        program = paths.program(__name__)
        self._argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, str(os.getpid())]
        self._env = dict(each.split("=", 1) for each in asked["env"])
        self._pid = 0
        self._said = b""
        self._otherwise = NOT_COMPARED
        self.output_digest = ""

    def begin(self, then: Callable[[str], None], output: str = "", *, starts: bool = False) -> None:
        """Compare, read the output folder ("" for none), and call `then` with the changes, "" for none."""
        workspace = self.asked.get("workspace") if starts else None
        self._said, self._otherwise = b"", NOT_COMPARED if self.asked["args"] or workspace else ""
        read, write = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, write, 1)]
        argv = [*self._argv, output, *(workspace or ("", "")), *self.asked["args"]]
        try:
            self._pid = os.posix_spawn(argv[0], argv, self._env, file_actions=actions)
        except OSError:
            os.close(read)
            self._loop.after(0, lambda: then(self._otherwise))
            return
        finally:
            os.close(write)
        os.set_blocking(read, False)
        self._loop.watch(read, lambda: self._receive(read, then))

    def cut_short(self) -> None:
        """End a running comparison without a result."""
        if self._pid:
            self._otherwise = INPUTS_CUT_SHORT if self.asked["args"] else ""
            os.kill(self._pid, _signal.SIGKILL)

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
            digest, line, changes = self._said[1:-1].decode(errors="replace").partition("\n")
            is_whole = self._said.startswith(b"=") and self._said.endswith(b"\n") and bool(line)
            self.output_digest = digest if is_whole else ""
            then(changes if is_whole else self._otherwise)


def main() -> None:
    """Read the files, and print digest and changes. The process ends with the supervisor."""
    from launcher.schedulers.contents import output_digest  # only this process needs it, not the supervisor
    from launcher.schedulers.local import kernel

    parent, output, digest, folder, *fields = sys.argv[1:]
    kernel.die_with_parent()
    if os.getppid() == int(parent):
        found = output_digest(output) if output else ""
        changes = [_changes(*fields) if fields else "", _edits(digest, folder) if digest else ""]
        print(f"={found}\n{'; '.join(filter(None, changes))}")


def _changes(digest: str, directory: str, root: str, *globs: str) -> str:
    from launcher.specs.inputs import UNDER
    from launcher.specs.launch import InputRef
    from launcher.workspace.inputs import changed_since

    return changed_since(InputRef(digest, directory, root, globs), UNDER)


def _edits(digest: str, folder: str) -> str:
    """Return which files of a workspace are not those with this digest, as a phrase; "" for none."""
    from launcher.errors import LauncherError
    from launcher.specs.inputs import named
    from launcher.text import printable
    from launcher.workspace.context import content_digest
    from launcher.workspace.manifest import changed_paths

    try:
        now = content_digest(folder)
    except LauncherError as error:
        return printable(str(error))
    if now == digest:
        return ""
    paths = [*map(printable, changed_paths(digest, now))]
    return f"{named(paths) if paths else 'files'} of its workspace changed while it waited"
