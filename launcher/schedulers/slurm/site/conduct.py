"""Run an app inside its Slurm job: the steps of its roles in order, their restarts, the outcome.

Runs on the first node of a job: Python >= 3.6, the standard library alone.
Usage: conduct.py APP_DIR. Each role is one srun step of replica.py, which reports by lines on the output of
srun, and which stops its replica when a line on the input of srun says so.
"""

import heapq
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from launcher.schedulers.last_line import exited
from launcher.schedulers.slurm.site.node import PR_SET_PDEATHSIG, append, link, now_ns, prctl, read_json, say

STOPPED_AT_END = "stopped at the end of the app"
LONGEST_DELAY_S = 300
PIPE_BYTES = 64 * 1024
LOOK_S = 2.0  # how often the folder is looked at for a cancellation whose signal got lost
LOOK_AT_RECORDS_S = 30.0
KILL_AFTER_S = 5.0  # how much longer than its grace period a step may take
TERMED_S = 1.2  # how long replicas may take to end when Slurm ends the job; it kills KillWait after TERM
ASK_S = 1.5  # how long Slurm may take to say why it ends the job, each time
ASKS = 2
TERM_LAG_S = 0.5  # the signal that ends a job reaches replicas and this program at nearly the same time
END_STEP_S = 10.0  # how long Slurm may take to kill a step
REQUEUE_S = 60.0  # how long Slurm may take to end a job that comes back
RECORD_RETRY_S, RECORD_LIMIT_S = 1.0, 600.0
MOST_ERROR_TEXT = 8 << 20  # characters of all error files in the outcome
LAST_LINES = 20
NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
VAGUE = re.compile(r"\s*$|srun: (error: )?(Job step aborted|[Ff]orc(ing|e) |Terminating )")  # says no reason
VERDICT = re.compile(r"Node failure on | CANCELLED AT ")
RUNNING = {"RUNNING", "RESIZING", "SIGNALING", "STOPPED", "SUSPENDED"}
MOST_WARNINGS = 10
CLAIM_READS = 5
OUT_OF_MEMORY = (
    "out of memory",
    "oom-kill",
    "oom_kill",
    "exceeded job memory limit",
    "exceeded memory limit",
)
SPARE_BYTES = 1024  # of the outcome, for each replica
ENDED_BY_OTHERS = "a client recorded its end: Slurm did not know that its job ran"
RUN_AGAIN = "Slurm's controller forgot that its job ran; it is not run twice"


def in_words(limit: str) -> str:
    """A time limit as Slurm writes it ("1-00:00:00", "02:00:00") in words: "1 d", "2 h", "90 min"."""
    days, _, rest = limit.rpartition("-")
    try:
        hours, minutes, seconds = ([0, 0, 0] + [int(each) for each in rest.split(":")])[-3:]
        total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    except ValueError:
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if total and total % size == 0:
            return f"{total // size} {unit}"
    return ""


def is_preempted(found: dict) -> bool:
    """Whether Slurm gives a job, as `scontrol show job` describes it, some time to stop for another one."""
    return found.get("PreemptTime", "None") not in ("None", "(null)")


def seconds_until(at: str) -> float:
    """How long until a time as Slurm writes it ("2026-01-31T12:00:00", local); 0 if it is unknown."""
    try:
        return time.mktime(time.strptime(at, "%Y-%m-%dT%H:%M:%S")) - time.time()
    except (ValueError, OverflowError):
        return 0.0


def last_words(lines: list) -> str:
    """The line of srun that tells most of why its step ended; "" for none."""
    telling = [line for line in lines if not VAGUE.match(line)]
    verdicts = [line for line in telling if VERDICT.search(line)]
    return ["", *telling, *verdicts][-1]


class Order:
    """The progress of the roles since all of them were started last."""

    def __init__(self, roles: list, rules: dict) -> None:
        self._counts = {role["name"]: len(role["replicas"]) for role in roles}
        self._rules = rules
        self.begin()

    def begin(self) -> None:
        self.waiting = list(self._counts)
        self._reached = {
            (role, condition): set()
            for role in self._counts
            for condition in ("started", "ready", "succeeded")
        }  # type: dict

    def _awaited(self, role: str) -> dict:
        return self._rules.get(role, {}).get("depends_on") or {}

    def release(self) -> list:
        """The roles that may start now. They no longer wait."""
        free = [
            role for role in self.waiting if all(self._has(*each) for each in self._awaited(role).items())
        ]
        self.waiting = [role for role in self.waiting if role not in free]
        return free

    def _has(self, role: str, condition: str) -> bool:
        return len(self._reached[role, condition]) >= self._counts[role]

    def reach(self, role: str, k: int, condition: str) -> None:
        self._reached[role, condition].add(k)

    def restart(self, role: str, k: int) -> None:
        for condition in ("ready", "succeeded"):
            self._reached[role, condition].discard(k)

    def is_done(self) -> bool:
        counted = (role for role in self._counts if not self._rules.get(role, {}).get("service"))
        return all(self._has(role, "succeeded") for role in counted)

    def stuck_behind(self, role: str, k: int) -> str:
        """A role that waits for the readiness of a replica that has ended; "" when none does."""
        if k in self._reached[role, "ready"]:
            return ""
        return next((each for each in self.waiting if self._awaited(each).get(role) == "ready"), "")


class Step:
    """One srun of a role."""

    def __init__(self, role: dict, argv: list, replicas: list) -> None:
        self.role = role
        self.live = {each["k"] for each in replicas}
        self.silent: set = set()  # of these, those with a recorded end when the records were seen last
        self.last_lines: list = []
        self.text: dict = {}
        self.id = ""  # as Slurm knows it, once a replica was started
        process: Any = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        self.process = process
        self.out: int = process.stdout.fileno()
        self.err: int = process.stderr.fileno()
        self.open = {self.out, self.err}

    def lines(self, fd: int) -> list:
        """What srun has printed; the end of its output closes it."""
        data = os.read(fd, PIPE_BYTES)
        if not data:
            self.open.discard(fd)
        *lines, self.text[fd] = (self.text.get(fd, b"") + data).split(b"\n")
        return lines

    def send(self, message: dict) -> None:
        """Have srun hand a line to every replica."""
        try:
            self.process.stdin.write((json.dumps(message) + "\n").encode())
        except OSError:
            pass  # it has ended

    def signal(self, number: int) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


class Conductor:
    """Runs the app to its end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.job = os.environ.get("SLURM_JOB_ID", "")
        self.run_number = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        self.steps: list = []
        self.timers: list = []
        self.made = 0  # timers so far: those of one moment go off in their order
        self.generation = 0  # restarts of the whole app, which overtake those of single roles
        self.outcome: Any = None
        self.reason = ""  # why replicas are stopped
        self.termed = False
        self.requeued = False
        self.restarting: Any = None
        self.restarts = self.run_number
        self.app_restarts = 0
        self.started_at: Any = None
        self.over = False
        self.failed_node = ""
        self.warnings: list = []  # of wrappers: the job's own output may be lost as well
        self.poll = select.poll()
        self.wake, wake = os.pipe()
        for fd in (self.wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self.poll.register(self.wake, select.POLLIN)

    # -- the beginning -------------------------------------------------------------------------------------

    is_again = False  # whether this job has run the app before

    def claim(self) -> bool:
        """Become the one job that runs this app; a job that Slurm has requeued has that already."""
        path = self.folder + "/started"
        mine = {"job": self.job, "host": socket.gethostname(), "at": time.time()}
        if link(path, json.dumps(mine)):
            return True
        for _ in range(CLAIM_READS):  # what NFS remembers of the file may be old
            found = read_json(path)
            if isinstance(found, dict):
                self.is_again = found.get("job") == self.job
                break
            time.sleep(RECORD_RETRY_S)
        return self.is_again

    def _may_run_again(self) -> bool:
        app = read_json(self.folder + "/app.json")
        return isinstance(app, dict) and bool(app.get("requeue"))

    def prepare(self) -> None:
        with open(self.folder + "/app.json", encoding="utf-8") as file:
            self.app = json.load(file)
        self.roles = self.app["roles"]
        self.rules = self.app.get("order") or {}
        self.order = Order(self.roles, self.rules)
        self.replicas: dict = {}
        for role in self.roles:
            role["restarts"], role["restarting"] = 0, None
            for below in ("logs", "replicas"):
                os.makedirs("{}/{}/{}".format(self.folder, below, role["folder"]), mode=0o700, exist_ok=True)
            for k in range(len(role["replicas"])):
                self.replicas[role["name"], k] = self._replica(role, k)
        for name in ("hosts", "scratch"):
            os.makedirs(f"{self.folder}/{name}", mode=0o700, exist_ok=True)
        if not self.app.get("cwd"):
            os.makedirs(self.folder + "/workspace", mode=0o700, exist_ok=True)
        with open(self.folder + "/spare", "wb") as file:
            file.write(os.urandom(SPARE_BYTES * (1 + len(self.replicas))))
        for name in os.listdir(self.folder + "/hosts"):
            os.unlink(f"{self.folder}/hosts/{name}")

    def _replica(self, role: dict, k: int) -> dict:
        """The record of a replica before its start; one that ran before the job was requeued is restarted."""
        made = {"role": role["name"], "k": k, "run": self.run_number, "state": "pending", "host": ""}
        made.update(started_at=None, ended_at=None, code=None, signal=0, restarts=0, stopped="")
        made.update(error_file="", retries=0, was_started=False)
        path = self._path(role, k)
        found = read_json(path)
        if isinstance(found, dict):
            made.update(restarts=int(found.get("restarts") or 0), was_started=True)
            os.unlink(path)
        return made

    def _path(self, role: dict, k: int) -> str:
        return "{}/replicas/{}/{}.json".format(self.folder, role["folder"], k)

    def run(self, setup_failure: "tuple | None" = None) -> int:
        """Run the app, or record its `setup_failure` (exit code, command); the exit code of the job."""
        ended = read_json(self.folder + "/outcome")
        if isinstance(ended, dict):
            return int(ended.get("exit_code") or 0)
        try:
            if not self.claim():
                return 0
        except OSError as error:
            say(f"{self.folder}: {error.strerror}")
            return 1
        if self.is_again and not self.run_number and not self._may_run_again():
            self.replicas = {}
            say(RUN_AGAIN)
            self.outcome = {"state": "lost", "message": RUN_AGAIN, "exit_code": None}
            return self.finish()
        try:
            self.prepare()
        except (OSError, ValueError, KeyError) as error:
            self.replicas = {}
            why = f"cannot start: {error}"
            say(why)
            self.outcome = {"state": "failed", "message": why, "exit_code": None}
            return self.finish()
        if setup_failure is not None:
            why = "setup failed with {}: {}".format(*setup_failure)
            say(why)
            self.reason = "setup failed"
            self.outcome = {"state": "failed", "message": why, "exit_code": setup_failure[0]}
            return self.finish()
        if self.run_number:
            self._note({"e": "requeue", "n": self.run_number, "t": now_ns()})
        self.after(LOOK_S, self._look)
        self.after(LOOK_AT_RECORDS_S, self._look_at_records)
        self._look_for_cancel()
        self.release()
        while not self.over:
            self.turn()
        return self.finish()

    # -- the loop ------------------------------------------------------------------------------------------

    def after(self, delay_s: float, call: Any) -> None:
        self.made += 1
        heapq.heappush(self.timers, (time.monotonic() + delay_s, self.made, call))

    def turn(self) -> None:
        wait_s = self.timers[0][0] - time.monotonic() if self.timers else LOOK_S
        for fd, _ in self.poll.poll(max(0, int(wait_s * 1000) + 1)):
            if fd == self.wake:
                self._take_signals()
            for step in list(self.steps):
                if fd in step.open:
                    self._take_lines(step, fd)
        for step in list(self.steps):
            if not step.open and step.process.poll() is not None:
                self._step_over(step)
        while self.timers and self.timers[0][0] <= time.monotonic():
            heapq.heappop(self.timers)[-1]()

    def _take_signals(self) -> None:
        try:
            numbers = os.read(self.wake, 4096)
        except BlockingIOError:
            return
        if signal.SIGUSR2 in numbers:
            self._look_for_cancel()
        if signal.SIGUSR1 in numbers:
            self._near_limit()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._terminated(self._ask())

    def _take_lines(self, step: Step, fd: int) -> None:
        for line in step.lines(fd):
            try:
                event = json.loads(line.decode()) if fd == step.out else None
            except ValueError:
                event = None
            if isinstance(event, dict) and "e" in event:
                self._take(step, event)
            else:
                text = line.decode(errors="replace")
                named = NODE_FAILURE.search(text)
                self.failed_node = named.group(1) if named else self.failed_node
                step.last_lines = [*step.last_lines, text][-LAST_LINES:]
                say(text)
        if fd not in step.open:
            self.poll.unregister(fd)

    # -- steps ---------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Start the roles that wait for nothing any more."""
        if self.outcome is None and self.restarting is None:
            free = self.order.release()
            for role in self.roles:
                if role["name"] in free:
                    self._start(role)

    def _of(self, role: dict) -> list:
        return [self.replicas[role["name"], k] for k in range(len(role["replicas"]))]

    def _start(self, role: dict) -> None:
        replicas = self._of(role)
        for each in replicas:
            if each["was_started"]:
                each["restarts"] += 1
            each.update(state="pending", code=None, signal=0, stopped="", late="", why="", lost="", oom=False)
            each.update(was_started=True, ended_at=None, termed=False)
        what = {
            "role": self.roles.index(role),
            "run": self.run_number,
            "restarts": [each["restarts"] for each in replicas],
            "retries": [each["retries"] for each in replicas],
        }
        program = ["python3", "-I", "-S", self.folder + "/replica.py", self.folder]
        argv = role["srun"] + program + [json.dumps(what, separators=(",", ":"))]
        try:
            step = Step(role, argv, replicas)
        except OSError as error:
            name = "{}/0".format(role["name"])
            why = f"cannot start {name}: {argv[0]}: {error.strerror}"
            self.stop("failed", why, f"{name} failed", code=1)
            return
        self.steps.append(step)
        for fd in step.open:
            self.poll.register(fd, select.POLLIN)

    def _step_over(self, step: Step) -> None:
        """All that a step has printed is read. Of replicas that did not report their end nothing is left."""
        self.steps.remove(step)
        for pipe in (step.process.stdin, step.process.stdout, step.process.stderr):
            pipe.close()
        oom = any(mark in "\n".join(step.last_lines).lower() for mark in OUT_OF_MEMORY)
        code = step.process.returncode
        if step.live and self.outcome is None:
            self._heed(self._ask())
        if step.live and step.id and code < 0:  # killed: Slurm notices later
            step.last_lines.append(f"srun was killed by signal {-code}")
            self._end_step(step.id)
        for k in sorted(step.live):
            self._lost(step, self.replicas[step.role["name"], k], 128 - code if code < 0 else code)
        for each in self._of(step.role):
            each["oom"] = bool(oom and (each["signal"] == signal.SIGKILL or each.get("lost")))
        for each in self._of(step.role):
            asks = each.get("termed") and self.outcome is None  # Slurm, soon, whether it ends the job
            if each["state"] == "ended" and not each.get("judged") and not asks:
                self.judge(each)
        self.go_on()

    def _end_step(self, step_id: str) -> None:
        """Have Slurm kill what is left of a step, and wait for its end."""
        name = f"{self.job}.{step_id}"
        end = time.monotonic() + END_STEP_S
        self._slurm("scancel", "--signal=KILL", name)
        while name in self._slurm("squeue", "-h", "-s", "-j", self.job, "-o", "%i").split():
            if time.monotonic() > end:
                break
            time.sleep(0.1)

    def _lost(self, step: Step, replica: dict, code: int) -> None:
        """The wrapper of a replica, or all of the step, was killed before it reported."""
        found = self._recorded_end(step, replica)
        if found:
            self._exit(step, replica, found)
            return
        last = last_words(step.last_lines)
        if replica["state"] == "pending":
            replica["why"] = last or f"srun exited with {code}"
        replica.update(ended_at=time.time(), code=code or 1, lost=last or "its step ended")
        if self.outcome is not None:
            replica["stopped"] = self.reason
        replica.update(state="ended", judged=False)
        event = {name: replica[name] for name in ("role", "k", "code", "signal", "lost")}
        self._note(dict(event, e="exit", t=now_ns()))

    def _recorded_end(self, step: Step, replica: dict) -> dict:
        """The end of the last start of a replica, as an event; {} where its record has none."""
        found = read_json(self._path(step.role, replica["k"]))
        if not isinstance(found, dict) or found.get("state") != "ended":
            return {}
        if (found["run"], found["restarts"]) < (replica["run"], replica["restarts"]):
            return {}
        return dict(found, final=True, t=int(found["ended_at"] * 1e9))

    # -- what replicas report ------------------------------------------------------------------------------

    def _take(self, step: Step, event: dict) -> None:
        if event["e"] == "warning":
            say(event["message"])
            self.warnings.append(event["message"])
            return
        replica = self.replicas[event["role"], event["k"]]
        where = (event["role"], event["k"])
        if event["e"] == "spawn":
            step.id = event["step"]
            started_at = event["t"] / 1e9
            replica.update(state="running", host=event["host"], started_at=started_at, judged=False)
            replica.update(restarts=event["restart"], code=None, signal=0, stopped="", ended_at=None)
            if self.started_at is None:
                self._first_start(started_at)
            self.order.reach(where[0], where[1], "started")
            self.release()
        elif event["e"] == "ready":
            replica["state"] = "ready"
            self.order.reach(where[0], where[1], "ready")
            self.release()
        elif event["e"] == "restart":
            self.restarts += 1
            replica["retries"] = event["n"]
            self.order.restart(*where)
            self._say_restart(replica, event["n"], event["delay_s"])
        elif event["e"] == "exit":
            self._exit(step, replica, event)

    def _first_start(self, started_at: float) -> None:
        self.started_at = started_at
        timeout_s = self.app.get("timeout_s")
        if timeout_s:
            why = f"timed out after {timeout_s:g} s"
            self.after(started_at + timeout_s - time.time(), lambda: self.stop("failed", why, why))

    def _exit(self, step: Step, replica: dict, event: dict) -> None:
        replica.update(code=event["code"], signal=event["signal"], ended_at=event["t"] / 1e9)
        for name in ("stopped", "late", "why", "said"):
            replica[name] = event.get(name, "")
        replica["host"] = event.get("host") or replica["host"]
        if event.get("lost"):
            replica.update(lost=event["lost"], stopped="")
        if not event["final"]:
            return
        replica.update(state="ended", judged=False, termed=bool(event.get("term")))
        step.live.discard(replica["k"])
        if not step.live:
            self._end_srun([step], KILL_AFTER_S)
        if not (event["code"] or replica["late"] or replica["stopped"]):
            self.order.reach(replica["role"], replica["k"], "succeeded")
        # Slurm may have ended it, which this program then learns itself, or may say that memory ran out.
        by_itself = self.outcome is None and not replica["stopped"]
        if by_itself and (event.get("term") or event["signal"]):
            self.after(TERM_LAG_S, lambda: self._judge_later(replica))
        else:
            self.judge(replica)

    def _judge_later(self, replica: dict) -> None:
        if replica["state"] != "ended" or replica["judged"]:
            return
        if not replica["termed"] or not self._heed(self._ask()):
            self.judge(replica)

    def _heed(self, found: dict) -> bool:
        """End the app if Slurm ends its job: it signals this program later, or the steps alone."""
        is_ending = is_preempted(found) or found.get("JobState", "RUNNING") not in RUNNING
        if is_ending:
            self._terminated(found)
        return is_ending

    # -- decisions -----------------------------------------------------------------------------------------

    def judge(self, replica: dict) -> None:
        """Decide what follows from the end of a replica."""
        replica["judged"] = True
        role = next(each for each in self.roles if each["name"] == replica["role"])
        if self.outcome is not None:
            if self.termed and replica["code"] and not replica["stopped"]:
                replica["stopped"] = self.reason
        elif self.restarting is not None or role["restarting"] is not None:
            pass  # until all have ended
        elif replica["stopped"]:
            pass  # for a restart that is over
        elif self.order.is_done():
            self.stop("succeeded", "", STOPPED_AT_END, code=0)
        elif replica["code"] or replica.get("late"):
            self.failed(role, replica)
        else:
            waiting = self.order.stuck_behind(replica["role"], replica["k"])
            if waiting:
                why = "{}/{} ended before it was ready".format(replica["role"], replica["k"])
                self.stop("failed", f"{why}, and {waiting} waits for it", why, code=0)
            else:
                self.release()
        self.go_on()

    def failed(self, role: dict, replica: dict) -> None:
        name = "{}/{}".format(replica["role"], replica["k"])
        reason = f"{name} failed"
        most = 0 if replica.get("why") else role["retries"]
        if role["policy"] == "ROLE" and role["restarts"] < most:
            role["restarts"] += 1
            role["restarting"] = replica
            self._tell([step for step in self.steps if step.role is role], reason)
        elif role["policy"] == "APPLICATION" and self.app_restarts < most:
            self.app_restarts += 1
            self.restarting = replica
            self._tell(self.steps, reason)
        else:
            self.stop("failed", self._failure(name, replica), reason, code=replica["code"])

    def _failure(self, name: str, replica: dict) -> str:
        if replica.get("why"):
            where = name + (" on {}".format(replica["host"]) if replica["host"] else "")
            again = "{} could not be started again: {}" if replica["restarts"] else "cannot start {}: {}"
            return again.format(where, replica["why"])
        return f"{name} {self._cause(replica)}"

    def _cause(self, replica: dict) -> str:
        if replica.get("late"):
            return "was " + replica["late"]
        if replica.get("oom"):
            return "was killed: out of memory"
        if replica.get("lost"):
            return "was lost: " + replica["lost"]
        if replica["signal"]:
            return "was killed by signal {}".format(replica["signal"])
        return exited(replica["code"], replica.get("said", ""))

    def _tell(self, steps: list, reason: str, grace_s: Any = None) -> None:
        """Stop the replicas of these steps: by a line, then by the signal that ends srun and its step."""
        grace_s = self.app["grace_s"] if grace_s is None else grace_s
        steps = list(steps)
        for step in steps:
            step.send({"stop": reason, "grace_s": grace_s})
        self._end_srun(steps, grace_s + KILL_AFTER_S)

    def _end_srun(self, steps: list, after_s: float) -> None:
        """Send TERM, which has srun kill its step, and KILL, should srun not have ended by then."""
        for number, at in ((signal.SIGTERM, after_s), (signal.SIGKILL, after_s + KILL_AFTER_S)):
            self.after(
                at, lambda number=number: [each.signal(number) for each in steps if each in self.steps]
            )

    def stop(self, state: str, message: str, reason: str, code: Any = None, grace_s: Any = None) -> None:
        """End the app with this outcome. The first of several reasons counts; a later one may hurry it."""
        if self.outcome is None:
            self.outcome = {"state": state, "message": message, "exit_code": code}
            self.reason = reason
            if message:
                say(message)
        elif grace_s is None:
            return
        self._tell(list(self.steps), self.reason, grace_s)
        self.go_on()

    def go_on(self) -> None:
        """End or restart what has no step any more."""
        if self.outcome is not None:
            self.over = self.over or not self.steps
        elif self.restarting is not None:
            if not self.steps:
                cause, self.restarting = self.restarting, None
                for role in self.roles:
                    role["restarting"] = None
                self._restart("app", self.roles, cause, self.app_restarts)
        else:
            for role in self.roles:
                if role["restarting"] and not any(step.role is role for step in self.steps):
                    cause, role["restarting"] = role["restarting"], None
                    self._restart("role", [role], cause, role["restarts"])

    def _restart(self, scope: str, roles: list, cause: dict, count: int) -> None:
        role = next(each for each in self.roles if each["name"] == cause["role"])
        first_s = self.rules.get(role["name"], {}).get("retry_delay", 0)
        delay_s = min(first_s * 2 ** min(count - 1, 20), LONGEST_DELAY_S)
        self.restarts += 1
        event = {"e": "restart", "role": cause["role"], "k": cause["k"], "scope": scope, "n": count}
        event.update(delay_s=delay_s, t=now_ns())
        self._note(event)
        self._say_restart(cause, count, delay_s)
        for each in roles:
            for replica in self._of(each):
                self.order.restart(each["name"], replica["k"])
                replica["judged"] = True
        self.generation += scope == "app"
        generation = self.generation

        def again() -> None:
            if self.outcome is not None or self.restarting is not None or self.generation != generation:
                return
            if scope == "app":
                self.order.begin()
                self.release()
            else:
                self._start(role)

        self.after(delay_s, again)

    def _say_restart(self, cause: dict, count: int, delay_s: float) -> None:
        role = next(each for each in self.roles if each["name"] == cause["role"])
        pause = f" in {delay_s:g} s" if delay_s else ""
        name = "{}/{}".format(cause["role"], cause["k"])
        say("{} {}; restart {} of {}{}".format(name, self._cause(cause), count, role["retries"], pause))

    def _note(self, event: dict) -> None:
        try:
            append(self.folder + "/events", json.dumps(event))
        except OSError as error:
            say(f"events: {error.strerror}")

    # -- reasons from outside ------------------------------------------------------------------------------

    def _look(self) -> None:
        self._look_for_cancel()
        self.after(LOOK_S, self._look)

    def _look_at_records(self) -> None:
        """Take the ends that were not reported: Slurm does not notice when its daemon of a step is killed."""
        for step in list(self.steps):
            for k in sorted(step.live):
                replica = self.replicas[step.role["name"], k]
                found = self._recorded_end(step, replica)
                if found and k in step.silent:
                    self._exit(step, replica, found)
                elif found:
                    step.silent.add(k)
        self.after(LOOK_AT_RECORDS_S, self._look_at_records)

    def _look_for_cancel(self) -> None:
        names = os.listdir(self.folder)  # a list is asked from the server
        if "outcome" in names:
            self.stop("lost", ENDED_BY_OTHERS, ENDED_BY_OTHERS)
        if "cancel" not in names:
            return
        found = read_json(self.folder + "/cancel")
        if isinstance(found, dict):
            word = "interrupted" if found.get("interrupt") else "cancelled"
            by = found.get("by")
            message = f"{word} by {by}" if by else word
            grace_s = found.get("grace_s")
            if self.outcome is None or grace_s is not None:
                self.stop("cancelled", message, message, grace_s=grace_s)

    def _ask(self) -> dict:
        """What Slurm knows of this job: "EndTime", "Restarts", "TimeLimit" and more.

        Nothing where another job has its id: a controller that lost its state counts anew.
        """
        for _ in range(ASKS):
            said = self._slurm("scontrol", "show", "job", "-o", self.job)
            if said:
                break
        if f"/{os.path.basename(self.folder)}/script-" not in said:  # users may give the job another name
            return {}
        return dict(word.partition("=")[::2] for word in reversed(said.split()) if "=" in word)

    def _slurm(self, *argv: str) -> str:
        """What a command of Slurm prints; "" where it fails."""
        try:
            said = subprocess.check_output(
                argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=ASK_S
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return said.decode(errors="replace")

    def _near_limit(self) -> None:
        """Stop in time for the job's limit. Slurm's signal may come a minute early, and limits are moved."""
        found = self._ask()
        spare_s = seconds_until(found.get("EndTime", "")) - self.app["grace_s"] - KILL_AFTER_S
        if spare_s > 0:
            self.after(spare_s, self._near_limit)
        else:
            why = self._limit(found)
            self.stop("failed", why, why)

    def _limit(self, found: dict) -> str:
        """What the app fails with when Slurm ends it at its time limit."""
        limit = in_words(found.get("TimeLimit", ""))
        return f"timed out after {limit}" if limit else "timed out"

    def _terminated(self, found: dict) -> None:
        """Slurm ends the job, and kills what is left a few seconds later. A requeued one comes back."""
        restarts = found.get("Restarts", "")
        preempted = is_preempted(found)
        comes_back = self.app.get("requeue") and preempted
        comes_back = comes_back or (restarts.isdigit() and int(restarts) > self.run_number)
        self.requeued = bool(self.requeued or (self.outcome is None and comes_back))
        state, why = self._verdict(found)
        if found.get("JobState") == "RUNNING":  # only this program got the signal, or there is time
            self.stop(state, why, why)
            return
        self.termed = True
        self.stop(state, why, why, grace_s=min(self.app["grace_s"], TERMED_S))
        for each in self.replicas.values():
            if each["state"] == "ended" and not each.get("judged") and each["code"]:
                each.update(stopped=self.reason, judged=True)
        self.after(TERMED_S, self._be_over)

    def _verdict(self, found: dict) -> tuple:
        """(state, message) of an app whose job Slurm ends."""
        reason = found.get("Reason")
        if reason == "TimeLimit":
            return "failed", self._limit(found)
        if is_preempted(found):
            return "failed", "was preempted"
        if reason == "NodeDown" and not self.requeued:
            nodes = self.failed_node or self._nodes_down(found)
            return "failed", f"node {nodes} failed" if nodes else "a node failed"
        if found.get("JobState") == "OUT_OF_MEMORY" or reason == "OutOfMemory":
            return "failed", "killed: out of memory"
        return "cancelled", "requeued" if self.requeued else "cancelled"

    def _nodes_down(self, found: dict) -> str:
        """The nodes of the job that Slurm calls down: those that failed, when srun has not named one."""
        those = ["-n", found.get("NodeList", ""), "-t", "down"]
        return ",".join(sorted(set(self._slurm("sinfo", "-h", "-N", *those, "-o", "%N").split())))

    def _be_over(self) -> None:
        self.over = True

    # -- the end -------------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Record the outcome, unless the job comes back; the exit code."""
        outcome = dict(self.outcome)
        if self.requeued:
            return self._come_back()
        outcome.update(started_at=self.started_at, ended_at=time.time(), restarts=self.restarts)
        outcome.update(warnings=self.warnings[:MOST_WARNINGS], replicas=self._records())
        text = json.dumps(outcome)
        end = time.monotonic() + RECORD_LIMIT_S
        while True:
            try:
                link(self.folder + "/outcome", text)
                break
            except OSError as error:
                if self._spare():
                    continue
                say(f"the outcome cannot be recorded: {error.strerror}")
                if time.monotonic() > end or self.termed:
                    break
                time.sleep(RECORD_RETRY_S)
        self._spare()
        try:
            os.unlink(self.folder + "/secrets")
        except OSError:
            pass
        if outcome["state"] == "succeeded":
            return 0
        return outcome["exit_code"] or 1

    def _spare(self) -> bool:
        """Give back the space that was kept for the outcome; whether there was any."""
        try:
            os.unlink(self.folder + "/spare")
        except OSError:
            return False
        return True

    def _come_back(self) -> int:
        """Leave the end of this run to Slurm, so that the job runs again."""
        if self._ask().get("JobState") == "RUNNING":  # there was time to stop
            self._slurm("scontrol", "requeue", self.job)
            time.sleep(REQUEUE_S)
        return 1

    def end_job(self) -> None:
        """Cancel the job: its slurmstepd was killed, and Slurm would hold the nodes of the job for ever."""
        if self._ask():
            self._slurm("scancel", self.job)

    def _records(self) -> list:
        """The records of all replicas, with what they left in their error files, the first ones first."""
        left = MOST_ERROR_TEXT
        roles = {role["name"]: role for role in getattr(self, "roles", ())}
        made = []
        for each in sorted(self.replicas.values(), key=lambda each: each["ended_at"] or 0):
            # Slurm kills this program soon when it ends the job: what it knows is enough then.
            found = None if self.termed else read_json(self._path(roles[each["role"]], each["k"]))
            if isinstance(found, dict) and found.get("run") == each["run"]:
                each["error_file"] = (found.get("error_file") or "")[:left]
                left -= len(each["error_file"])
            if each["state"] != "ended" and not each["stopped"]:
                each["stopped"] = self.reason
            if each["state"] != "pending":
                each.update(state="ended", ended_at=each["ended_at"] or time.time())
            hidden = ("retries", "was_started", "judged", "termed")
            made.append({name: value for name, value in each.items() if name not in hidden})
        order = {name: at for at, name in enumerate(roles)}
        return sorted(made, key=lambda each: (order[each["role"]], each["k"]))


def main(folder: str, *failed: str) -> int:
    """`failed`: exit code and text of the line of `setup` that failed, if any."""
    daemon, conductor = os.getppid(), Conductor(folder)
    code = conductor.run((int(failed[0]), failed[1]) if failed else None)
    if os.getppid() != daemon:
        conductor.end_job()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # without waiting for a step that Slurm is about to kill


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), *sys.argv[2:])
