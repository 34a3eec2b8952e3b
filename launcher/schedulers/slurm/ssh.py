"""Run a Python program on a login node: the system's ssh, one connection for all programs of this process.

No part of a program, a path or an app is on a command line: a constant loader reads the program from its
input. ssh obeys the user's own configuration; BatchMode keeps it from asking.

The startup files of the login shell there may print before and after a program, and change its exit code. So
the loader prints a random mark around the output of a successful program, and around the errors of every
program.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from tempfile import TemporaryFile

from launcher import paths
from launcher.errors import SchedulerError

_LOADER = (
    "python3 -c 'import atexit, sys; i = sys.stdin.buffer; n, mark = i.readline().decode().split(); "
    "print(end=mark, flush=True); print(mark, file=sys.stderr, flush=True); "
    "atexit.register(print, mark, file=sys.stderr, flush=True); "
    'exec(compile(i.read(int(n)), "launcher", "exec"), {"__name__": "__main__"}); print(mark, flush=True)\''
)
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4")
_LINGER_S = 20
"""How long a connection stays open for the next program when this process dies before it closes it."""
_LONGEST_ROOT = 40  # bytes; the path of a socket may have 108, of which ssh's own part takes 62
_UNREACHED = 255  # ssh's own exit code for a connection that failed
_NO_COMMAND = 127
_PIECE = 1 << 18


class Ssh:
    """The connection to one host. Safe to use from several threads."""

    def __init__(self, host: str) -> None:
        """Make no connection yet. Raises SchedulerError for a text that cannot be the name of a host."""
        if not host or host.startswith("-") or not host.isprintable() or " " in host:
            raise SchedulerError(f"`{host}` cannot be the name of a host", hint="write it as ssh takes it")
        self.host = host
        self._shared: list[str] | None = None

    def run(self, program: bytes, pieces: Iterable[bytes] = ()) -> bytes:
        """Run a Python program on `pieces`; returns its output. Raises SchedulerError with its last line."""
        return b"".join(self.stream(program, pieces))

    def stream(self, program: bytes, pieces: Iterable[bytes] = ()) -> Iterator[bytes]:
        """As `run`, with the output in pieces, as it arrives. A caller that stops early kills the program."""
        mark = os.urandom(16).hex().encode()
        argv = ["ssh", "-T", *self._options(), "--", self.host, _LOADER]
        with TemporaryFile() as errors:  # the process that keeps the connection would hold a pipe open
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,  # Ctrl-C reaches this process, which then closes the input
                )
            except OSError as error:
                why = error.strerror or str(error)
                raise SchedulerError(f"cannot run ssh: {why}", hint="install OpenSSH's client") from error
            with process:
                try:
                    output = _exchange(process, b"%d %s\n" % (len(program), mark) + program, pieces)
                    is_whole = yield from _between(mark, output)
                except BaseException:
                    process.kill()
                    raise
            if not is_whole:
                errors.seek(0)
                said = errors.read().split(mark)
                raise self._failed(process.returncode, said[min(1, len(said) - 1)].decode(errors="replace"))

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._shared:
            argv = ["ssh", *self._shared, "-O", "stop", "--", self.host]
            with suppress(OSError):
                _quietly(argv)
        self._shared = None

    def _options(self) -> list[str]:
        if self._shared is None:
            # The user may keep a connection open, which is needed where a site asks for a second factor.
            with suppress(OSError):
                self._shared = [] if _quietly(["ssh", "-O", "check", "--", self.host]) == 0 else None
            self._shared = self._sharing() if self._shared is None else self._shared
        return [*self._shared, *(part for each in _OPTIONS for part in ("-o", each))]

    def _sharing(self) -> list[str]:
        """The options for a shared connection of this process."""
        root = paths.runtime()
        if len(os.fsencode(root)) > _LONGEST_ROOT:
            root = f"/tmp/launcher-{os.geteuid()}"
        folder = paths.ensure_private(root, os.path.join(root, "ssh"), "XDG_RUNTIME_DIR")
        path = os.path.join(folder, "%C")
        options = ("ControlMaster=auto", f"ControlPath={path}", f"ControlPersist={_LINGER_S}")
        return [part for each in options for part in ("-o", each)]

    def _failed(self, code: int, text: str) -> SchedulerError:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines and code not in (_UNREACHED, _NO_COMMAND):
            ends = f" (exit code {code})" if code else ""
            return SchedulerError(
                f"{self.host} was cut off before it had answered{ends}",
                hint=f"try again; if that does not help, {self.host}:~/.bashrc ends or replaces the shell",
            )
        last = lines[-1] if lines else f"ssh exited with {code}"
        if code == _UNREACHED:
            hint = f"`ssh {self.host} true` has to work without a question"
            return SchedulerError(f"cannot reach {self.host}: {last}", hint=hint)
        if code == _NO_COMMAND:
            return SchedulerError(
                f"{self.host} cannot run python3: {last}", hint="Slurm apps need Python 3.6"
            )
        return SchedulerError(f"{self.host}: {last}")


def _exchange(process: subprocess.Popen[bytes], head: bytes, pieces: Iterable[bytes]) -> Iterator[bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(head)
        for piece in pieces:
            process.stdin.write(piece)
        process.stdin.close()
    except BrokenPipeError:  # the program ended: its errors give the reason
        with suppress(OSError):
            process.stdin.close()
    while piece := process.stdout.read1(_PIECE):  # type: ignore[attr-defined]  # it is buffered
        yield piece


def _between(mark: bytes, pieces: Iterable[bytes]) -> Generator[bytes, None, bool]:
    """Yield the bytes between two marks; returns whether both were there."""
    held, marks, tail = b"", 0, len(mark) - 1  # a mark may be cut by the end of a piece
    for piece in pieces:
        held += piece
        while marks < 2 and mark in held:
            inside, _, held = held.partition(mark)
            if marks and inside:
                yield inside
            marks += 1
        if marks == 1 and len(held) > tail:
            yield held[:-tail]
        held = held[-tail:]
    return marks == 2


def _quietly(argv: list[str]) -> int:
    null = subprocess.DEVNULL
    return subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=False).returncode
