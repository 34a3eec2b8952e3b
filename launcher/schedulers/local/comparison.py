"""Compare the files of an app with those of its plan, and hash the files of its output folder.

Its input files are compared at its start and at its end; one that was written in between counts as changed.
A workspace that its replicas run in is compared at the start alone: what the app itself writes there is no
reason to run it again.

Hashing takes as long as reading: a process beside the holder of the app does it, so that the holder's loop
never waits, nor does the holder load more modules. To start such a process takes longer than to read a few
files: the holder of a line has few of them, for all of its apps.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import sys

from launcher import paths
from launcher.holding.events import INPUTS_CUT_SHORT
from launcher.schedulers.loop import Inbox, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from launcher.schedulers.loop import Loop

    Answer = tuple[str, str] | None
    """The digest of the output folder and the changes, "" for none; None where the files were not read."""
    Then = Callable[[Answer], None]
    Asked = tuple[tuple[str, ...], tuple[str, ...]]
    """The variables of the process, as NAME=VALUE, and the arguments of its request."""

NOT_COMPARED = "its files could not be compared when it started or ended"


class Comparison:
    """The files of one app, compared by `readers`.

    Args:
        asked: `args`, the fields of an InputRef, globs last, empty without input files; `workspace`, digest
            and path, where it is compared; and `env`, the variables that `main` needs.

    Attributes:
        output_digest: the result of `contents.output_digest` once an output folder was read; "" before.
    """

    def __init__(self, readers: Readers, asked: Mapping[str, list[str]]) -> None:
        self._readers = readers
        self.asked = asked
        self._otherwise = NOT_COMPARED
        self.output_digest = ""

    def begin(self, then: Callable[[str], None], output: str = "", *, since: float | None = None) -> None:
        """Compare, read the output folder ("" for none), and call `then` with the changes, "" for none.

        Args:
            since: the start of the app in epoch seconds; None where it has yet to start.
        """
        workspace = self.asked.get("workspace") if since is None else None
        self._otherwise = NOT_COMPARED if self.asked["args"] or workspace else ""
        request = [output, *(workspace or ("", "")), str(since or ""), *self.asked["args"]]

        def end(answer: Answer) -> None:
            self.output_digest, changes = answer or ("", self._otherwise)
            then(changes)

        self._readers.ask(self.asked["env"], request, end)

    def cut_short(self) -> None:
        """End a running comparison without a result. No other app may have the same readers."""
        self._otherwise = INPUTS_CUT_SHORT if self.asked["args"] else ""
        self._readers.kill()


class Readers:
    """The processes that read files, for all apps that this process holds.

    Args:
        most: how many there are at the same time; one that reads for long delays no app but its own.
        linger_s: how long one stays without a request.
    """

    def __init__(self, loop: Loop, *, most: int = 1, linger_s: float = 0.0) -> None:
        self._loop = loop
        self._most = most
        self._linger_s = linger_s
        self._waiting: dict[Asked, list[Then]] = {}  # request → callbacks; the next one first
        self._readers: list[_Reader] = []
        self._is_due = False

    def ask(self, env: Iterable[str], request: Iterable[str], then: Then) -> None:
        """Call `then` with the answer to a request. Equal ones that wait are read for once."""
        self._waiting.setdefault((tuple(env), tuple(request)), []).append(then)
        self._soon()

    def kill(self) -> None:
        """End all of them; requests get no answer."""
        for reader in self._readers:
            try:
                os.kill(reader.pid, _signal.SIGKILL)
            except ProcessLookupError:  # it has just died
                pass
        self._give_up()

    def answered(self, reader: _Reader) -> None:
        """Give the reader its next request. Without one it ends, soon or at once."""
        if self._waiting:
            self._soon()
        if self._linger_s:
            since = reader.answers
            self._loop.after(self._linger_s, lambda: self._dismiss(reader, since))
        elif not self._waiting:
            self._dismiss(reader, reader.answers)

    def ended(self, reader: _Reader) -> None:
        """Go on without a reader that has died; an idle one may have died before it was asked."""
        self._readers.remove(reader)
        thens, reader.thens = reader.thens, []
        if reader.answers and thens:
            self._waiting.setdefault(reader.asked, []).extend(thens)
        else:
            for then in thens:
                then(None)
        self._soon()

    def _soon(self) -> None:
        """Go on when the callbacks of all ready descriptors have returned: these may ask for the same."""
        if not self._is_due:
            self._is_due = True
            self._loop.after(0, self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        while self._waiting:
            asked = next(iter(self._waiting))
            reader = next((each for each in self._readers if not each.thens), None)
            if reader is None:
                if len(self._readers) >= self._most:
                    return
                try:
                    reader = _Reader(self, self._loop, asked[0])
                except OSError:
                    if not self._readers:
                        self._give_up()
                    return
                self._readers.append(reader)
            reader.ask(asked, self._waiting.pop(asked))

    def _give_up(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for then in [each for thens in waiting.values() for each in thens]:
            self._loop.after(0, lambda then=then: then(None))  # type: ignore[misc]

    def _dismiss(self, reader: _Reader, since: int) -> None:
        """End a reader that has had no request since that number of answers."""
        if reader in self._readers and not reader.thens and reader.answers == since:
            reader.close()
            self._readers.remove(reader)


class _Reader:
    """A process that reads files, for one request at a time.

    Args:
        env: its variables, as NAME=VALUE.

    Attributes:
        asked, thens: the request that it reads for, with its callbacks.
        answers: the number of its answers.
    """

    def __init__(self, readers: Readers, loop: Loop, env: Iterable[str]) -> None:
        self._readers = readers
        self._loop = loop
        self.thens: list[Then] = []
        self.answers = 0
        program = paths.program(__name__)
        argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, str(os.getpid())]
        theirs, self._requests = os.pipe()
        self._fd, answers = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, theirs, 0), (os.POSIX_SPAWN_DUP2, answers, 1)]
        try:
            variables = dict(each.split("=", 1) for each in env)
            self.pid = os.posix_spawn(argv[0], argv, variables, file_actions=actions)
        except OSError:
            os.close(self._requests)
            os.close(self._fd)
            raise
        finally:
            os.close(theirs)
            os.close(answers)
        self._inbox = Inbox(self._fd)
        loop.watch(self._fd, self._receive)

    def ask(self, asked: Asked, thens: list[Then]) -> None:
        self.asked, self.thens = asked, thens
        send(self._requests, asked[1])  # a process that has died closes its end of the answers, too

    def _receive(self) -> None:
        if not self._inbox.read():
            self.close()
            self._readers.ended(self)
        elif (answer := self._inbox.take()) is not None:
            self.answers += 1
            thens, self.thens = self.thens, []
            self._readers.answered(self)
            for then in thens:
                then(answer)

    def close(self) -> None:
        """Let the process end: it reads no further request."""
        self._loop.remove(self._fd)
        os.close(self._requests)
        os.close(self._fd)


def main() -> None:
    """Read files for one request after the other. The process ends with the holder of the apps."""
    from launcher.schedulers.contents import output_digest  # only this process needs it, not the holder
    from launcher.schedulers.local import kernel

    kernel.die_with_parent()
    inbox = Inbox(0)
    while os.getppid() == int(sys.argv[1]) and inbox.read():
        while (request := inbox.take()) is not None:
            output, digest, folder, since, *fields = request
            found = output_digest(output) if output else ""
            changes = [_changes(since, *fields) if fields else "", _edits(digest, folder) if digest else ""]
            send(1, (found, "; ".join(filter(None, changes))))
    os._exit(0)


def _changes(since: str, digest: str, directory: str, root: str, *globs: str) -> str:
    from launcher.specs.inputs import UNDER
    from launcher.specs.launch import InputRef
    from launcher.workspace.inputs import changed_since

    ref = InputRef(digest, directory, root, globs)
    return changed_since(ref, UNDER, since=float(since) if since else None)


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
