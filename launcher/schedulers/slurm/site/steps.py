"""The steps of an app, which start, stop and report its replicas. Python >= 3.6, the standard library alone.

A role is one step, which starts all of its replicas at once. A replica that is restarted alone runs in its
old wrapper, if that waits for the restart, or in a step of its own.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any, Iterator, Optional, Sequence

from launcher.holding.app import App
from launcher.holding.replica import Replica
from launcher.schedulers.loop import Loop
from launcher.schedulers.slurm.site.job import SlurmJob
from launcher.schedulers.slurm.site.node import PR_SET_PDEATHSIG, prctl, read_json, say
from launcher.schedulers.slurm.site.shared import Json, recorded_exit

PIPE_BYTES = 64 * 1024
LAST_LINES = 20
NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
VAGUE = re.compile(r"\s*$|srun: (error: )?(Job step aborted|[Ff]orc(ing|e) |Terminating |Check SLURM)")
VERDICT = re.compile(r"Node failure on | CANCELLED AT ")
# The controller is away, or has not made the step in time: no process has begun.
UNMADE = re.compile(
    r"srun: error: Unable to (confirm allocation|create step) for job .*"
    r"(busy|timed out|contact|connect|Zero Bytes|temporarily)",
    re.IGNORECASE,
)
OUT_OF_MEMORY = re.compile(r"out of memory|oom[-_]kill|exceeded (job )?memory limit", re.IGNORECASE)


class SrunStep:
    """One srun of a role.

    Attributes:
        live: the replicas whose end was not reported; `begun`: those of them whose start was.
        staying: the ended replicas whose wrappers wait for another start.
        silent: the live replicas with a recorded end at the last look at the records.
        id: the step's id in Slurm, once a replica was started.
        failed_node: the failed node by srun's report; "" for none.
    """

    def __init__(self, role: str, ks: list, argv: list) -> None:
        """Start srun. Raises OSError where there is none."""
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
        """The next events from replicas. Other lines go to the output of the job."""
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
            pass  # srun has ended

    def signal(self, number: int) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    def is_over(self) -> bool:
        """Whether srun has ended, and all of its output was read."""
        return not self.open and self._process.poll() is not None

    @property
    def code(self) -> int:
        """The exit code of an ended srun, as in a shell."""
        code: int = self._process.returncode
        return 128 - code if code < 0 else code

    @property
    def killed_by(self) -> int:
        """The signal that killed srun; 0 for none."""
        return max(0, -self._process.returncode)

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()

    def reason(self) -> str:
        """The line of srun that best explains the end of the step; "" for none."""
        telling = [line for line in self._last_lines if not VAGUE.match(line)]
        verdicts = [line for line in telling if VERDICT.search(line)]
        if self.killed_by:
            verdicts = [f"srun was killed by signal {self.killed_by}"]
        return ["", *telling, *verdicts][-1]

    def ran_out_of_memory(self) -> bool:
        return any(map(OUT_OF_MEMORY.search, self._last_lines))

    def is_unmade(self) -> bool:
        """Whether srun has ended because Slurm's controller did not make the step: it may make the next."""
        return not self.begun and any(map(UNMADE.match, self._last_lines))


def _event(line: bytes) -> "Optional[dict]":
    try:
        event = json.loads(line.decode())
    except ValueError:
        return None
    return event if isinstance(event, dict) and "e" in event else None


KILL_AFTER_S = 5.0  # how much longer than its grace period a step may take
TERM_LAG_S = 0.5  # the signal that ends a job reaches replicas and the conductor at nearly the same time
LOOK_AT_RECORDS_S = 30.0
MADE_WITHIN_S = 20  # srun alone waits for minutes where a restarted controller has forgotten its request
MAKE_AGAIN_S = 1.0
OVER_S = 0.1  # how long to collect wrappers that may leave, before one line dismisses them all


class Steps:
    """The steps of one run of the app's job.

    Attributes:
        facts: the events that were not handed out yet, in order.
        failed_node: the failed node by the report of an srun; "" for none.
        is_ending: Slurm ends the job: replicas that end now were stopped.
    """

    def __init__(self, folder: str, settings: Json, app: App, job: SlurmJob, loop: Loop, run: int) -> None:
        self._folder = folder
        self._settings = settings
        self._roles = {role["name"]: role for role in settings["roles"]}  # type: dict[str, Json]
        self._app = app
        self._job = job
        self._loop = loop
        self._run = run
        self._steps = []  # type: list[SrunStep]
        self._next = {}  # type: dict[str, list[Replica]]
        self._held = []  # type: list[tuple[SrunStep, Json]]
        self._is_dismissing = False
        self.facts = []  # type: list[Json]
        self.failed_node = ""
        self.is_ending = False
        self.on_doubt: Any = lambda: False  # asks Slurm; true where Slurm ends the job
        loop.after(LOOK_AT_RECORDS_S, self._look_at_records)

    def __len__(self) -> int:
        """The number of remaining steps, including those that wait for the end of an earlier step."""
        return len(self._steps) + len(self._next)

    # -- start ---------------------------------------------------------------------------------------------

    def start(self, replicas: "Sequence[Replica]") -> None:
        again = {}  # type: dict[SrunStep, list[Replica]]
        for each in replicas:
            waiting = [step for step in self._of(each.role.name) if each.k in step.staying]
            if waiting:
                again.setdefault(waiting[0], []).append(each)
            else:
                self._next.setdefault(each.role.name, []).append(each)
        for step, mine in again.items():
            ks = {each.k for each in mine}
            step.staying -= ks
            step.begun -= ks
            step.live |= ks
            step.send(start=[[each.k, each.restarts, int(each.has_retries)] for each in mine])
        for name in list(self._next):
            self._launch(name)

    def _launch(self, name: str) -> None:
        """Start the due replicas of a role, once no earlier step of the role is about to end."""
        if name not in self._next or any(not (step.live or step.staying) for step in self._of(name)):
            return
        replicas = self._next.pop(name)
        argv = self._command(self._roles[name], replicas)
        try:
            step = SrunStep(name, [each.k for each in replicas], argv)
        except OSError as error:
            self.facts += [
                _exit(each, code=1, why=f"{argv[0]}: {error.strerror}", host="") for each in replicas
            ]
            return
        self._steps.append(step)
        for fd in list(step.open):
            self._loop.watch(fd, lambda fd=fd: self._read(step, fd))  # type: ignore[misc]

    def _command(self, role: Json, replicas: "list[Replica]") -> "list[str]":
        what = {
            "role": self._settings["roles"].index(role),
            "run": self._run,
            "ks": [each.k for each in replicas],
            "restarts": [each.restarts for each in replicas],
            "stays": [int(each.has_retries) for each in replicas],
        }
        program = ["python3", "-I", "-S", os.path.abspath(sys.argv[0]), "replica", self._folder]
        srun, *words = role["srun"]
        argv = [srun, f"--immediate={MADE_WITHIN_S}", *words]
        argv = [f"--ntasks={len(replicas)}" if word.startswith("--ntasks=") else word for word in argv]
        if len(replicas) < len(role["replicas"]):  # Slurm chooses the nodes for them
            argv = [word for word in argv if not word.startswith(("--nodes=", "--relative="))]
        return argv + program + [json.dumps(what, separators=(",", ":"))]

    def _of(self, name: str) -> "list[SrunStep]":
        return [step for step in self._steps if step.role == name]

    # -- stop ----------------------------------------------------------------------------------------------

    def stop(self, replicas: "Sequence[Replica]", grace_s: float) -> None:
        """Stop these replicas, all running ones of their roles: by a line to them, then by ending srun."""
        names = {each.role.name for each in replicas}
        for name in names.intersection(self._next):
            self.facts += [_exit(each, code=None, stopped=True) for each in self._next.pop(name)]
        self._stop([step for step in self._steps if step.role in names], grace_s)

    def stop_all(self, grace_s: float) -> None:
        """End all steps, also those of an app without running replicas."""
        self._next.clear()
        self._stop(list(self._steps), grace_s)

    def _stop(self, steps: "list[SrunStep]", grace_s: float) -> None:
        for step in steps:
            step.staying.clear()
            step.send(stop=grace_s)
        self._end(steps, grace_s + KILL_AFTER_S)

    def _end(self, steps: "list[SrunStep]", after_s: float) -> None:
        """Send TERM after `after_s`, at which srun kills its step, and KILL later if srun has not ended."""
        for number, at in ((signal.SIGTERM, after_s), (signal.SIGKILL, after_s + KILL_AFTER_S)):
            self._loop.after(at, lambda number=number: self._signal(steps, number))  # type: ignore[misc]

    def _signal(self, steps: "list[SrunStep]", number: int) -> None:
        for each in steps:
            if each in self._steps:
                each.signal(number)

    def _dismiss(self) -> None:
        """Let every wrapper leave whose replica is not started again."""
        self._is_dismissing = False
        for step in self._steps:
            replicas = self._app.roles[step.role].replicas
            over = [k for k in sorted(step.staying) if replicas[k].state == "ended"]
            if over:
                step.staying.difference_update(over)
                step.send(over=over)
                self._end_if_done(step)

    def _end_if_done(self, step: SrunStep) -> None:
        if not (step.live or step.staying):
            self._end([step], KILL_AFTER_S)

    # -- reports of replicas -------------------------------------------------------------------------------

    def _read(self, step: SrunStep, fd: int) -> None:
        for event in step.read(fd):
            if event["e"] == "exit":
                self._take_exit(step, event)
                continue
            if event["e"] == "spawn":
                step.id = event["id"]
                step.begun.add(event["k"])
            self.facts.append(event)
        self.failed_node = step.failed_node or self.failed_node
        if fd not in step.open:
            self._loop.forget(fd)

    def _take_exit(self, step: SrunStep, event: Json) -> None:
        k = event["k"]
        if k not in step.live:  # the end was found in a record, or the wrapper was killed while it waited
            step.staying.discard(k)
            return
        step.live.discard(k)
        if event.pop("stays", False):
            step.staying.add(k)
        self._end_if_done(step)
        # Slurm may have ended the replica: the conductor learns that itself, or Slurm reports lack of memory.
        if self._is_open() and not event.get("stopped") and (event.get("term") or event["code"] > 128):
            self._held.append((step, event))
            self._loop.after(TERM_LAG_S, lambda: self._release(step, event))
        else:
            if self._is_open() and self._may_complete(event):  # it may have handled the TERM of Slurm
                self.on_doubt()
            self._hand_out(step, event)

    def _may_complete(self, event: Json) -> bool:
        """Whether an app may have succeeded by this end of a replica: no other one runs, services aside."""
        roles = (self._app.roles[each.role] for each in self._steps if each.live)
        return not event["code"] and all(role.is_service for role in roles)

    def _is_open(self) -> bool:
        return self._app.stop is None and not self.is_ending

    def _hand_out(self, step: SrunStep, event: Json) -> None:
        if self.is_ending and event["code"]:
            event["stopped"] = True
        if step.ran_out_of_memory() and (event.get("signal") == signal.SIGKILL or event.get("lost")):
            event["oom"] = True
        event.pop("term", None)
        self.facts.append(event)
        if event["k"] in step.staying and not self._is_dismissing:
            self._is_dismissing = True
            self._loop.after(OVER_S, self._dismiss)  # once the ends that were handed out have been judged

    def _release(self, step: SrunStep, event: Json) -> None:
        """Hand out an end that was held back, unless Slurm is the cause of it."""
        if (step, event) in self._held and not (_by_term(event) and self._is_open() and self.on_doubt()):
            self._held.remove((step, event))
            self._hand_out(step, event)

    def release_all(self) -> None:
        """Hand out every end that was held back."""
        held, self._held = self._held, []
        for each in held:
            self._hand_out(*each)

    # -- ends without a report -----------------------------------------------------------------------------

    def collect(self) -> None:
        """Take the ends of the steps that are over."""
        for step in [each for each in self._steps if each.is_over()]:
            self._over(step)

    def _over(self, step: SrunStep) -> None:
        """End a step after its output was read. Its replicas without a reported end have no process left."""
        self._steps.remove(step)
        step.close()
        if step.live and self._is_open():
            self.on_doubt()
        if step.is_unmade() and self._is_open():
            replicas = self._app.roles[step.role].replicas
            self._next.setdefault(step.role, []).extend(replicas[k] for k in sorted(step.live))
            self._loop.after(MAKE_AGAIN_S, lambda: self._launch(step.role))
            return
        if step.live and step.id and step.killed_by:  # Slurm notices that only later
            self._job.end_step(step.id)
        for k in sorted(step.live):
            self._hand_out(step, self._lost(step, self._app.roles[step.role].replicas[k]))
        for found, event in [each for each in self._held if each[0] is step]:
            if not (_by_term(event) and self._is_open()):  # else Slurm is soon asked if it ends the job
                self._release(found, event)
        if step.role in self._next:
            self._launch(step.role)

    def _lost(self, step: SrunStep, replica: Replica) -> Json:
        """The end of a replica whose wrapper, or whose step, was killed before it reported."""
        record = self._record(replica)
        found = recorded_exit(record, replica)
        if found is not None:
            return found
        reason, code = step.reason(), step.code or 1
        has_begun = record.get("started_at") is not None and record.get("restarts") == replica.restarts
        if replica.k in step.begun or has_begun:
            event = _exit(replica, code=code, lost=reason or "its step ended")
        else:
            event = _exit(replica, code=code, why=reason or f"srun exited with {step.code}", host="")
        if not self._is_open():
            event["stopped"] = True
        return event

    def _record(self, replica: Replica) -> Json:
        """The wrapper's record of a replica in this run of the job; {} where there is none."""
        folder = self._roles[replica.role.name]["folder"]
        found = read_json(f"{self._folder}/replicas/{folder}/{replica.k}.json") or {}
        return found if found.get("run") == self._run else {}

    def _look_at_records(self) -> None:
        """Take unreported ends from records: Slurm does not notice when its daemon of a step is killed."""
        for step in list(self._steps):
            for k in sorted(step.live):
                replica = self._app.roles[step.role].replicas[k]
                found = recorded_exit(self._record(replica), replica)
                if found is not None and k in step.silent:
                    self._take_exit(step, found)
                elif found is not None:
                    step.silent.add(k)
        self._loop.after(LOOK_AT_RECORDS_S, self._look_at_records)


def _by_term(event: Json) -> bool:
    """Whether a replica, its wrapper, or a command of its shell got TERM: Slurm signals all of a step."""
    return bool(event.get("term")) or event["code"] == 128 + signal.SIGTERM


def _exit(replica: Replica, **fields: Any) -> Json:
    made = {"e": "exit", "role": replica.role.name, "k": replica.k, "t": int(time.time() * 1e9)}
    made.update(fields)
    return made
