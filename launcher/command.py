"""Run an external command and read what it prints."""

from __future__ import annotations

import os
from contextlib import contextmanager
from errno import EACCES, EAGAIN, ENOEXEC

from launcher.errors import CommandError
from launcher.paths import remedy, remedy_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from subprocess import Popen

_SHOWN = 4_000  # characters of each output stream in an error, since build logs are too long


def run(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    input: str | None = None,
    timeout_s: float | None = None,
    env: Mapping[str, str | None] | None = None,
    ok: Collection[int] = (0,),
) -> str:
    """Run `argv` without a shell and return its standard output.

    The command gets `input` (else nothing) on its standard input and no terminal, so it cannot ask for
    input. On a timeout or Ctrl-C its whole process group is killed.

    Args:
        env: variables to set on top of this process's environment; None removes one.
        ok: the exit codes that are not errors.

    Raises CommandError when it cannot be started, ends with another code, or takes longer than `timeout_s`.
    """
    from subprocess import TimeoutExpired

    with _ctrl_c_held_back() as let_it_come:
        process = _start(argv, cwd, env)
        try:
            let_it_come()
            out, err = process.communicate(input, timeout=timeout_s)
        except TimeoutExpired as late:
            report = _report(argv, f"took longer than {timeout_s:g} s and was killed", *_kill(process))
            raise CommandError(report) from late
        except BaseException:
            _kill(process)
            raise
    if process.returncode not in ok:
        raise CommandError(_report(argv, _ending(process.returncode), out, err), hint=remedy_in(err))
    return out


@contextmanager
def _ctrl_c_held_back() -> Iterator[Callable[[], None]]:
    """Delay Ctrl-C until the yielded function is called, or the body ends.

    A process that is being created cannot be killed yet, because its id is unknown.
    """
    import signal
    import threading

    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield lambda: None  # Python raises KeyboardInterrupt only in the main thread
        return
    came: list[int] = []

    def release() -> None:
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, before)
            if came:
                signal.raise_signal(signal.SIGINT)

    def hold(number: int, frame: object) -> None:
        came.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield release
    finally:
        release()


def _start(argv: Sequence[str], cwd: str | None, env: Mapping[str, str | None] | None) -> Popen[str]:
    from subprocess import PIPE, Popen

    merged: dict[str, str | None] = {**os.environ, **(env or {})}
    try:
        return Popen(
            list(argv),
            cwd=cwd,
            env={name: value for name, value in merged.items() if value is not None} if env else None,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            encoding="utf-8",
            errors="surrogateescape",  # file names are bytes and must round-trip
            start_new_session=True,  # a group of its own, so that its children can be killed with it
        )
    except OSError as error:
        raise _unstartable(argv, cwd, error) from error


_HINTS = {
    EAGAIN: "this user may start no more processes: end some, or raise the limit (`ulimit -u`)",
    EACCES: "the file, or the file system that holds it, does not allow to execute it",
    ENOEXEC: "the file is no program for this machine",
}


def _unstartable(argv: Sequence[str], cwd: str | None, error: OSError) -> CommandError:
    import shutil

    why = error.strerror or str(error)
    if cwd is not None and error.filename == cwd:
        return CommandError(f"cannot run {_quoted(argv)} in {cwd}: {why}")
    # A folder on PATH that is not readable turns the error of a missing command into "Permission denied".
    if os.sep not in argv[0] and shutil.which(argv[0]) is None:
        hint = f"install `{argv[0]}`, or put its folder on PATH"
        return CommandError(f"cannot run {_quoted(argv)}: no command `{argv[0]}`", hint=hint)
    hint = _HINTS.get(error.errno or 0) or remedy(error, "")
    return CommandError(f"cannot run {_quoted(argv)}: {why}", hint=hint or None)


def _kill(process: Popen[str]) -> tuple[str, str]:
    """Kill the command with its whole group; returns its output so far."""
    import signal

    if process.returncode is None:  # exit status not collected, so the group id cannot have been reused
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()


def _report(argv: Sequence[str], ending: str, out: str, err: str) -> str:
    lines = [f"{_quoted(argv)} {ending}"]
    for name, text in (("stderr", err), ("stdout", out)):
        if text.strip():
            text = text.rstrip()
            text = text if len(text) <= _SHOWN else "…" + text[-_SHOWN:]  # errors are at the end
            lines += [f"{name}:", *(f"  {line}" for line in text.splitlines())]
    return "\n".join(lines)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    import signal

    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"


def _quoted(argv: Sequence[str]) -> str:
    import shlex

    return shlex.join(argv)
