"""Run `launcher ARGV` in this process and die by SIGKILL at a chosen point: nothing can clean up.

python -m tests.kill_at interrupt NAME N -- ARGV    no kill: Ctrl-C, at the N-th event NAME of an apply
python -m tests.kill_at step NAME N -- ARGV     at the N-th event NAME of an apply
python -m tests.kill_at call N -- ARGV          at the N-th function call or return, whatever it is
python -m tests.kill_at count FILE -- ARGV      lives; writes how many calls and returns there were before the
                                                    first event, and in all, to FILE
python -m tests.kill_at record NAME N -- ARGV   lives; the supervisors that it spawns die when they have
                                                    recorded their N-th event NAME
python -m tests.kill_at watch NAME N -- ARGV    lives; the watchers that it spawns die when they have recorded
                                                    their N-th event NAME, or begun or done their N-th request
                                                    ("to start", "started", "to stop", "stopped", "renamed")
python -m tests.kill_at engine N -- ARGV        lives; the watchers on the engine that it makes die once each
                                                    at their N-th act: before or after a request that changes
                                                    something, after an event, after a ticket
python -m tests.kill_at steps FILE -- ARGV      lives; writes the events, one name a line, to FILE
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from launcher import paths

SUPERVISOR = "launcher.schedulers.local.supervisor"
WATCHER = "launcher.schedulers.docker.watching.watcher"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def on_every_event(react: Callable[[str], None]) -> None:
    """Call `react` with the name of every event of an apply, before any other listener gets it."""
    from launcher.apply.events import Events

    real = Events.emit

    def emit(self: Events, event: Any, *args: Any, **facts: Any) -> None:
        react(event)
        real(self, event, *args, **facts)

    Events.emit = emit


def on_every_call(react: Callable[[int], None]) -> None:
    """Call `react` with the running number of every call and return, in all threads."""
    numbers = count(1)  # each thread gets numbers of its own from it, without a lock

    def profile(*_: Any) -> None:
        react(next(numbers))

    threading.setprofile(profile)
    sys.setprofile(profile)


def first_run(module: str, text: str, patch: Callable[..., None] = setattr) -> None:
    """Let every process that runs `module` run `text` before its `main`. `patch` may be a monkeypatch's."""
    real = paths.program

    def program(name: str) -> str:
        main = real(name)
        return main.replace("; main()", f"; exec({text!r}); main()") if name == module else main

    patch(paths, "program", program)


def at_record(name: str, number: int) -> str:
    """Python text that a supervisor runs first, to die when it has recorded its `number`-th event `name`."""
    root = str(Path(__file__).resolve().parents[1])
    return f"""
import os, sys
sys.path.insert(0, {root!r})
from launcher.holding.journal import JournalWriter
def append(self, event, real=JournalWriter.append, seen=[]):
    real(self, event)
    seen.append(event["e"])
    if event["e"] == {name!r} and seen.count(event["e"]) == {number}:
        os.kill(os.getpid(), 9)
JournalWriter.append = append
"""


def at_act(name: str, number: int) -> str:
    """Python text that a watcher runs first, to die at its `number`-th act `name`."""
    root = str(Path(__file__).resolve().parents[1])
    return f"""
import os, sys
sys.path.insert(0, {root!r})
from launcher.holding.journal import JournalWriter
from launcher.schedulers.docker.client.engine import Engine
seen = []
def did(act):
    seen.append(act)
    if act == {name!r} and seen.count(act) == {number}:
        os.kill(os.getpid(), 9)
def around(real, before, after):
    def call(*args, **how):
        did(before)
        made = real(*args, **how)
        did(after)
        return made
    return call
def append(self, event, real=JournalWriter.append):
    made = real(self, event)
    did(event["e"])
    return made
JournalWriter.append = append
Engine.start_on = around(Engine.start_on, "to start", "started")
Engine.stop = around(Engine.stop, "to stop", "stopped")
Engine.rename = around(Engine.rename, "to rename", "renamed")
"""


def at_engine_act(number: int) -> bytes:
    """Python text that a watcher on the engine runs first, to die at its `number`-th act.

    The first process of a container cannot kill itself: it exits without any cleaning up. A file in the
    volume that all watchers share says that it has died: the process that the engine starts next lives.
    """
    return f"""
import os, sys
from threading import Lock
if len(sys.argv) > 1:
    from launcher.holding.journal import JournalWriter
    from launcher.schedulers.docker.client.wire import Wire
    from launcher.turns.table import Place
    mark, busy, seen = "/launcher/turns/killed." + sys.argv[1], Lock(), []
    def did():
        with busy:
            seen.append(1)
            if len(seen) == {number} and not os.path.exists(mark):
                open(mark, "w").close()
                os._exit(137)
    def after(real):
        def call(*args, **how):
            made = real(*args, **how)
            did()
            return made
        return call
    def send(self, method, *args, real=Wire.send, **how):
        if method == "GET" or method == "HEAD":
            return real(self, method, *args, **how)
        did()
        made = real(self, method, *args, **how)
        did()
        return made
    JournalWriter.append = after(JournalWriter.append)
    Place.record = after(Place.record)
    Wire.send = send
""".encode()


def arm(words: list[str]) -> Callable[[], None]:
    """Set the trap that `words` describe; return a function to be called at the end."""
    seen: list[Any] = []
    match words:
        case ["step", name, number]:

            def at_step(event: str) -> None:
                seen.append(event)
                if seen.count(name) == int(number):
                    die()

            on_every_event(at_step)
        case ["interrupt", name, number]:

            def interrupt_at_step(event: str) -> None:
                seen.append(event)
                if event == name and seen.count(name) == int(number):
                    raise KeyboardInterrupt

            on_every_event(interrupt_at_step)
        case ["record", name, number]:
            first_run(SUPERVISOR, at_record(name, int(number)))
        case ["watch", name, number]:
            first_run(WATCHER, at_act(name, int(number)))
        case ["engine", number]:
            from launcher.schedulers.docker.watching import container

            container.MAIN = at_engine_act(int(number)) + container.MAIN
        case ["steps", path]:
            on_every_event(seen.append)
            return lambda: write(path, "\n".join(seen))
        case ["call", number]:
            on_every_call(lambda n: die() if n == int(number) else None)
        case ["count", path]:
            last = [0]
            on_every_call(lambda n: last.__setitem__(0, n))
            on_every_event(lambda _: seen.append(last[0]))
            return lambda: write(path, f"{[*seen, 0][0]} {last[0]}")
        case _:
            sys.exit(f"what is {words}?")
    return lambda: None


def write(path: str, text: str) -> None:
    sys.setprofile(None)
    with open(path, "w") as file:
        file.write(text)


def main() -> int:
    words, argv = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    from launcher.__main__ import main as launcher_main

    finish = arm(words)
    try:
        return launcher_main(argv)
    finally:
        finish()


if __name__ == "__main__":
    sys.exit(main())
