"""One srun: the command that starts replicas of a role. Python >= 3.6, the standard library alone."""

import json
import os
import re
import signal
import subprocess
from typing import Any, Iterator, Optional

from launcher.schedulers.slurm.site.node import PR_SET_PDEATHSIG, prctl, say

PIPE_BYTES = 64 * 1024
LAST_LINES = 20
NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
VAGUE = re.compile(r"\s*$|srun: (error: )?(Job step aborted|[Ff]orc(ing|e) |Terminating )")  # says no reason
VERDICT = re.compile(r"Node failure on | CANCELLED AT ")
OUT_OF_MEMORY = (
    "out of memory",
    "oom-kill",
    "oom_kill",
    "exceeded job memory limit",
    "exceeded memory limit",
)


class Step:
    """One srun of a role.

    Attributes:
        live: the replicas whose end was not reported.
        begun: of these, those whose start was.
        staying: the replicas that have ended, and whose wrappers wait for another start.
        silent: of the live ones, those with a recorded end when the records were seen last.
        id: as Slurm knows it, once a replica was started.
        failed_node: the node that srun says has failed; "" for none.
    """

    def __init__(self, role: str, ks: list, argv: list) -> None:
        """Raises OSError where there is no srun."""
        self.role = role
        self.live = set(ks)
        self.begun, self.staying, self.silent = set(), set(), set()  # type: set[int], set[int], set[int]
        self.id = self.failed_node = ""
        self._last_lines = []  # type: list[str]
        self._texts = {}  # type: dict[int, bytes]
        process: Any = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        self._process = process
        self.out: int = process.stdout.fileno()
        self.err: int = process.stderr.fileno()
        self.open = {self.out, self.err}

    def read(self, fd: int) -> "Iterator[dict]":
        """The next events that replicas report. Other lines go to the output of the job."""
        data = os.read(fd, PIPE_BYTES)
        if not data:
            self.open.discard(fd)
        *lines, self._texts[fd] = (self._texts.get(fd, b"") + data).split(b"\n")
        for line in lines:
            event = _event(line) if fd == self.out else None
            if event is not None:
                yield event
            else:
                self._note(line.decode(errors="replace"))

    def _note(self, text: str) -> None:
        named = NODE_FAILURE.search(text)
        self.failed_node = named.group(1) if named else self.failed_node
        self._last_lines = [*self._last_lines, text][-LAST_LINES:]
        say(text)

    def send(self, **message: Any) -> None:
        """Have srun hand a line to every replica."""
        try:
            self._process.stdin.write((json.dumps(message, separators=(",", ":")) + "\n").encode())
        except OSError:
            pass  # it has ended

    def signal(self, number: int) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    def is_over(self) -> bool:
        """Whether srun has ended, and all of its output was read."""
        return not self.open and self._process.poll() is not None

    @property
    def code(self) -> int:
        """The exit code of an srun that has ended, as a shell says it."""
        code: int = self._process.returncode
        return 128 - code if code < 0 else code

    @property
    def killed_by(self) -> int:
        """The signal that has killed srun; 0 for none."""
        return max(0, -self._process.returncode)

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()

    def reason(self) -> str:
        """The line of srun that tells most of why the step ended; "" for none."""
        telling = [line for line in self._last_lines if not VAGUE.match(line)]
        verdicts = [line for line in telling if VERDICT.search(line)]
        if self.killed_by:
            verdicts = [f"srun was killed by signal {self.killed_by}"]
        return ["", *telling, *verdicts][-1]

    def ran_out_of_memory(self) -> bool:
        text = "\n".join(self._last_lines).lower()
        return any(mark in text for mark in OUT_OF_MEMORY)


def _event(line: bytes) -> "Optional[dict]":
    try:
        event = json.loads(line.decode())
    except ValueError:
        return None
    return event if isinstance(event, dict) and "e" in event else None
