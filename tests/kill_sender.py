"""Kill a sender of outcomes at its N-th call or return, then let another one finish; check what was received.

python -m tests.kill_sender HOME FOLDER FIRST EVERY    of a state folder with outcomes that nothing has sent
                                                       yet; FOLDER is for its copies, one for each kill

Prints the number of kills. The calls of outbox, ledger and sender count.
"""

import os
import shutil
import signal
import sys
import threading
from itertools import count
from typing import Any

from launcher import notify
from launcher.state import outbox
from tests.sink import Sink

COUNTED = ("launcher.notify", "launcher.state.outbox", "launcher.files", "launcher.state.store")


def send(kill_at: int = 0) -> int:
    """Run the sender of each group in a process of its own; return the signal that killed one, else 0."""
    found = 0
    for group in outbox.groups():
        if (pid := os.fork()) == 0:
            sys.argv = ["-c", group, "0"]
            trap(kill_at)
            notify.main()
        found = max(found, os.WTERMSIG(os.waitpid(pid, 0)[1]))
    return found


def trap(kill_at: int) -> None:
    seen = 0

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal seen
        if event in ("call", "return") and frame.f_globals.get("__name__", "").startswith(COUNTED):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if kill_at:
        threading.setprofile(profile)
        sys.setprofile(profile)


def main(home: str, folder: str, first: str, every: str) -> int:
    """Return the number of kills."""
    for kills, step in enumerate(count(int(first), int(every))):
        copy = os.path.join(folder, str(step))
        shutil.copytree(home, copy, ignore=shutil.ignore_patterns("*.bell"))
        os.environ["LAUNCHER_HOME"] = copy
        left = waiting()
        with Sink(int(os.environ["SINK_PORT"])) as sink:
            was_killed = send(step) == signal.SIGKILL
            send()
            ids = sorted(sink.ids)
            assert sink.refused == [], sink.refused
        assert [id.partition("_")[0] for id in ids] == sorted(left), f"killed at step {step}: {ids}"
        assert all(len(set(map(str, bodies(sink, id)))) == 1 for id in ids), f"step {step}: {sink.got}"
        assert waiting() == [], f"step {step}"
        if not was_killed:
            return kills
        shutil.rmtree(copy)
    raise AssertionError("count never ends")


def waiting() -> list[str]:
    """Return the app ids with a record; files that a killed process was writing are left out."""
    return [name for group in outbox.groups() for name in os.listdir(group) if "." not in name]


def bodies(sink: Sink, id: str) -> list[object]:
    return [body for one, body in sink.got if one == id]


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
