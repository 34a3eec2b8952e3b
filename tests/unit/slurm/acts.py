"""An agent that dies at a chosen act: a change of the file system, or start or end of a command of Slurm.

python -m tests.unit.slurm.acts N    answers the request on stdin, but is killed before its N-th act; it
                                     prints the number of acts when there were fewer

It loads nothing else: sweeps start it hundreds of times.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from launcher.schedulers.slurm.site.agent import observe, site, slurm


def count_acts(fatal: int) -> list[int]:
    """Kill this process before its act of that number; the list that is returned holds the count."""
    count = [0]

    def act() -> None:
        count[0] += 1
        if count[0] == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*args: Any, **fields: Any) -> Any:
            act()
            return real(*args, **fields)

        setattr(module, name, call)

    for name in ("link", "rename", "unlink", "mkdir", "rmdir"):
        before(os, name)
    real_open, real_call, real_popen = os.open, slurm.call, subprocess.Popen

    def opened(path: Any, flags: int, *args: Any, **fields: Any) -> int:
        if flags & os.O_CREAT:
            act()
        return real_open(path, flags, *args, **fields)

    def spawn(*args: Any, **fields: Any) -> Any:
        act()
        process = real_popen(*args, **fields)
        act()  # it runs on without us
        return process

    def called(argv: Sequence[str], limit_s: float, cwd: str, text: str = "") -> Any:
        found = real_call(argv, limit_s, cwd, text)
        act()
        return found

    os.open, slurm.call = opened, called
    slurm.subprocess.Popen = spawn
    return count


if __name__ == "__main__":
    site.SECOND_LOOK_S = observe.SECOND_LOOK_S = 0.1
    acts = count_acts(int(sys.argv[1]))
    site.answer(json.load(sys.stdin))
    print(acts[0])
