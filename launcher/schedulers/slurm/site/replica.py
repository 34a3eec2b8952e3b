"""The program that srun starts for each replica: its process, its output, its probe. Python >= 3.6.

Usage: `app.zip replica APP_DIR '{"role": index, "run": n, "ks": [...], "restarts": [...], "stays": [...]}'`,
with the number of each replica of the step, its restarts so far, and whether it waits for another start.

Two processes look after a replica: the guardian, which srun starts, and its child, the worker. Both adopt
orphans, so that when either is killed, the other one kills the remaining processes.

The worker reports to stdout, which srun hands to the conductor: JSON lines of less than 1024 bytes, which
srun keeps whole. On stdin the conductor sends lines, which srun hands to every replica of the step:
`{"stop": grace_s}` stops all; `{"start": [[k, restart, stays], ...]}` runs these again; `{"over": [k, ...]}`
makes these leave. After an end, a worker that stays waits for such a line.
"""

import fcntl
import json
import os
import re
import resource
import signal
import socket
import time
from functools import partial
from typing import Any

from launcher.holding.use import of_child
from launcher.schedulers.ended_process import TAIL_BYTES, last_line
from launcher.schedulers.loop import Loop
from launcher.schedulers.probes import taken_port
from launcher.schedulers.slurm.site import node

DRAIN_S = 0.5  # how long the rest of a replica may run, and its pipes stay open, after its leader ended
PIPE_BYTES = 64 * 1024
BIG_PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ = 1031
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
AGAIN_S = 0.2  # Slurm may send the same signal to guardian and worker: the replica gets it once
TERM_AGAIN_S = 3.0  # the conductor, whom Slurm signals too, may take so long to stop a replica that got TERM
NEVER = float("-inf")
MOST_ERROR_BYTES = 1 << 20
PLACE = re.compile("\u0001host:(.*?)\u0001", re.DOTALL)


def guard(worker: int, folder: str, what: dict) -> int:
    """Wait for the worker, forward signals, kill its remaining processes; returns the exit code.

    what: number of the role, number of the job's run; `k`, `restarts` and `stays` of the replica.
    """
    for number in FORWARDED:
        signal.signal(number, lambda number, _: node.kill(worker, number))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == worker:
            break
    node.kill_rest()
    code, number = node.exit_of(status)
    if number:
        record_death(folder, what, code, number)
    return code


def record_death(folder: str, what: dict, code: int, number: int) -> None:
    """Record the end of a replica whose worker was killed, and its processes with the worker."""
    with open(folder + "/app.json", encoding="utf-8") as file:
        role = json.load(file)["roles"][what["role"]]
    k = what["k"]
    path = "{}/replicas/{}/{}.json".format(folder, role["folder"], k)
    record = {"role": role["name"], "k": k, "run": what["run"], "restarts": what["restarts"]}
    record.update(host=socket.gethostname(), started_at=None, stopped=False)
    found = node.read_json(path)
    if found is not None and found["run"] == what["run"] and found["restarts"] >= record["restarts"]:
        record = found
    if record.get("state") != "ended":
        record.update(state="ended", ended_at=time.time(), code=code, signal=number)
        try:
            node.put(path, json.dumps(record))
        except OSError:
            pass
    event = {"e": "exit", "role": role["name"], "k": k, "code": code, "signal": number, "t": node.now_ns()}
    os.write(1, (json.dumps(event) + "\n").encode())


class Worker:
    """Runs the replica, and runs it again at each command of the conductor."""

    def __init__(self, folder: str, what: dict, guardian: int) -> None:
        self.folder = folder
        with open(folder + "/app.json", encoding="utf-8") as file:
            self.app = json.load(file)
        self.k = k = what["k"]
        self.restarts, self.stays = what["restarts"], what["stays"]
        self.role = role = self.app["roles"][what["role"]]
        self.name = "{}/{}".format(role["name"], k)
        self.rules = (self.app.get("order") or {}).get(role["name"]) or {}
        self.spec = role["replicas"][k]
        self.guardian = guardian
        self.replicas = "{}/replicas/{}".format(folder, role["folder"])
        for path in (self.replicas, "{}/logs/{}".format(folder, role["folder"]), folder + "/hosts"):
            os.makedirs(path, mode=0o700, exist_ok=True)
        lost = f"log output was lost: {self.name}: "
        stem = "{}/logs/{}/{}".format(folder, role["folder"], k)
        self.log = node.Log(stem, lambda error: self.event("warning", message=lost + str(error.strerror)))
        self.host = socket.gethostname()
        self.record = {"role": role["name"], "k": k, "run": what["run"], "host": self.host}
        self.secrets: tuple = ()
        self.error_path: Any = ""
        self.pipes: dict = {}
        self.commands = b""
        self.is_over = False  # the worker leaves when its replica has ended
        self.again: Any = None  # (restart, stays) of the next run
        self.buffer = memoryview(bytearray(BIG_PIPE_BYTES))
        self.loop = Loop((*FORWARDED, signal.SIGCHLD, signal.SIGTSTP, signal.SIGCONT))
        self.loop.on_signals = self._take_signals
        self.loop.watch(0, self._take_commands)
        self.others: dict = {}  # pid of a child other than the replica → callback for its exit code
        self._reset()

    def _reset(self) -> None:
        self.leader = 0
        self.sent: dict = {}  # signal → when the replica got it last
        self.status: Any = None
        self.probed: Any = None  # the probe of this run, if any
        self.errors = b""  # the end of its stderr, with one more byte where that is not all
        self.is_stopped = self.is_termed = self.is_ready = False
        self.kill_at: Any = None
        self.late = self.lost = ""
        self.record.update(state="running", restarts=self.restarts, started_at=None, ended_at=None, code=None)
        self.record.update(signal=0, stopped=False, late="", why="", lost="", said="", error_file="", use=())

    def main(self) -> int:
        """Run the replica until the conductor ends it for good; returns its last exit code."""
        code = self._run()
        while self.stays:
            while self.again is None and not self.is_over:  # for the conductor's command
                self.loop.turn()
            if self.is_over:
                break
            (self.restarts, self.stays), self.again = self.again, None
            self._reset()
            code = self._run()
        return code

    def _run(self) -> int:
        try:
            self._start()
        except node.CannotStart as error:
            return self._ended(error.code, 0, why=str(error))
        if not self.leader:  # the replica was stopped before its start
            self.record["stopped"] = True
            return self._ended(128 + signal.SIGTERM, signal.SIGTERM)
        return self._ended(*self._watch())

    # -- reports -------------------------------------------------------------------------------------------

    def event(self, kind: str, **more: Any) -> None:
        found = {"e": kind, "role": self.role["name"], "k": self.k, "t": node.now_ns()}
        found.update(more)
        try:
            os.write(1, (json.dumps(found) + "\n").encode())
        except OSError:
            pass

    def save(self) -> None:
        try:
            node.put(f"{self.replicas}/{self.k}.json", json.dumps(self.record))
        except OSError as error:
            node.say(f"{self.name}: its record cannot be written: {error.strerror}")

    def ready(self) -> None:
        self.is_ready = True
        self.event("ready")

    def is_late(self, why: str) -> None:
        self.late = why
        self._terminate(self.app["grace_s"])

    def _ended(self, code: int, number: int, why: str = "") -> int:
        """Record and report an end; the conductor decides what follows. Returns the exit code."""
        if self.lost:
            self.record["stopped"] = False
        texts = {"why": why, "late": self.late}
        if not why:
            texts["said"] = self._said(code, number)
            self.record["error_file"] = node.plain_text(self.error_path, MOST_ERROR_BYTES)
        self.record.update({name: node.short(text) for name, text in texts.items()})
        self.record.update(state="ended", code=code, signal=number, lost=self.lost)
        self.record["ended_at"] = self.record["ended_at"] or time.time()
        self.save()
        self.loop.turn(0.0)  # Slurm signals the processes of a step in any order: TERM may come after the end
        names = ("stopped", "late", "why", "lost", "said", "use")
        more = {name: self.record[name] for name in names if self.record[name]}
        if self.is_termed:
            more["term"] = True
        if not (code or self.late) and self.probed and self.probed.has_file():
            more["ready"] = True
        if self.stays and not self.is_over:
            more["stays"] = True
        self.event("exit", code=code, signal=number, host=self.host, **more)
        return code

    def _said(self, code: int, number: int) -> str:
        """The last line of stderr, for a replica that failed by itself."""
        if not code or number or self.late or self.lost or self.record["stopped"]:
            return ""
        return last_line(self.errors[-TAIL_BYTES:], self.secrets, whole=len(self.errors) <= TAIL_BYTES)

    # -- signals and commands ------------------------------------------------------------------------------

    def _take_signals(self, numbers: list) -> None:
        for number in numbers:
            if number not in FORWARDED:
                continue
            if os.getppid() != self.guardian:
                self._abandoned("its wrapper was killed", 0.0)
                continue
            if number == signal.SIGTERM:
                self.is_termed = self.is_over = True
            self._send(number, AGAIN_S)

    def _send(self, number: int, again_s: float) -> None:
        """Send the replica a signal, unless it got that within the last `again_s` seconds."""
        now = self.loop.now()
        if self.leader and self.status is None and now - self.sent.get(number, NEVER) > again_s:
            self.sent[number] = now
            node.kill(self.leader, number, os.killpg)

    def _take_commands(self) -> None:
        try:
            data = os.read(0, PIPE_BYTES)
        except OSError:
            data = b""
        if not data:
            self.loop.forget(0)
            self._abandoned("its step was killed", self.app["grace_s"])
        *lines, self.commands = (self.commands + data).split(b"\n")
        for message in [json.loads(line.decode()) for line in lines]:
            if "stop" in message:
                self.stop(message["stop"])
            for k, restart, stays in message.get("start", ()):
                if k == self.k:
                    self.again = (restart, stays)
            self.is_over = self.is_over or self.k in message.get("over", ())

    def _abandoned(self, why: str, grace_s: float) -> None:
        """Stop the replica, since the process that would stop it is gone."""
        if not self.is_stopped:
            self.lost = why
            self.stop(grace_s)

    def stop(self, grace_s: float) -> None:
        """Send TERM, and KILL after the grace period; a second call can only shorten it."""
        self.is_over = True
        if not self.is_stopped:
            self.is_stopped = True
            self._terminate(grace_s)
        elif self.kill_at is not None:
            self.kill_at = min(self.kill_at, self.loop.now() + grace_s)

    def _terminate(self, grace_s: float) -> None:
        kill_at = self.loop.now() + grace_s
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        self._send(signal.SIGTERM, TERM_AGAIN_S)  # a program may take a second one for "at once"
        self._send(signal.SIGCONT, 0.0)  # a suspended process does not handle TERM

    # -- start ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.k == 0:
            try:
                node.put("{}/hosts/{}".format(self.folder, self.role["folder"]), self.host)
            except OSError as error:
                raise node.CannotStart(f"cannot write {self.folder}: {error.strerror}", 1) from error
        argv, env = self._command()
        if self.is_stopped:
            return
        cwd = node.raw(self.app.get("cwd") or self.folder + "/workspace")
        self.error_path = env[b"TORCHELASTIC_ERROR_FILE"]
        try:
            os.makedirs(os.path.dirname(self.error_path), exist_ok=True)
            os.unlink(self.error_path)
        except OSError:
            pass
        path = node.find_executable(argv[0], env.get(b"PATH", os.defpath.encode()), cwd)
        probe = self.rules.get("ready")
        if probe:
            if "port" in probe and os.environ.get("SLURM_LOCALID", "0") == "0" and not self.restarts:
                why = taken_port(probe["port"])  # asked for the first replica of a node
                if why:
                    raise node.CannotStart(why, 1)
            self.probed = node.WorkerProbes(self, probe, env, cwd)
        self.log.open()
        if self.restarts:
            self.log.mark("restart")
        self.record["started_at"] = time.time()
        self._spawn(path, argv, env, cwd)
        step = os.environ.get("SLURM_STEP_ID", "")
        self.event("spawn", id=step, restart=self.restarts, host=self.host)
        self.save()
        if probe:
            self.probed.begin()

    def _command(self) -> tuple:
        """Wait for the hosts of other roles; returns argv and environment with them, as bytes."""
        own = {"TORCHELASTIC_ERROR_FILE": f"{self.replicas}/{self.k}.error"}
        own["LAUNCHER_SCRATCH"] = self.folder + "/scratch"
        own.update(self.spec["env"])
        secrets = self._secrets()
        self.secrets = tuple(secrets.values())
        own.update(secrets)
        own["LAUNCHER_RESTART"] = str(self.restarts)
        argv = self.spec["argv"]
        for role in sorted({role for text in [*argv, *own.values()] for role in PLACE.findall(text)}):
            self._wait_for_host(role)
            if self.is_stopped:
                break
        env = dict(os.environb)
        inherited = env.get(b"PATH")
        env.update({node.raw(name): self._fill(value) for name, value in own.items()})
        if own.get("PATH") and inherited:
            env[b"PATH"] += b":" + inherited
        return [self._fill(each) for each in argv], env

    def _secrets(self) -> dict:
        try:
            with open(self.folder + "/secrets", encoding="utf-8") as file:
                return json.load(file).get(self.role["name"]) or {}
        except FileNotFoundError:
            return {}

    def _wait_for_host(self, role: str) -> None:
        pause_s = 0.02
        # NFS reads a list of the folder from the server, but caches that a name is missing.
        while self.app["hosts"][role] not in os.listdir(self.folder + "/hosts"):
            until = self.loop.now() + pause_s
            self.loop.turn(until)
            if self.is_stopped:
                return
            pause_s = min(2 * pause_s, 1.0)

    def _fill(self, text: str) -> bytes:
        def host(found: Any) -> str:
            name = self.app["hosts"][found.group(1)]
            try:
                with open(f"{self.folder}/hosts/{name}", encoding="utf-8") as file:
                    return file.read()
            except OSError:
                return ""

        return node.raw(PLACE.sub(host, text).replace("\u0001dir\u0001", self.folder))

    def _spawn(self, path: bytes, argv: list, env: dict, cwd: bytes) -> None:
        self.leader, out, err = node.spawn(path, argv, env, cwd)
        for fd, kind in ((out, "stdout"), (err, "stderr")):
            self.pipes[fd] = kind
            self.loop.watch(fd, partial(self._copy, fd))

    # -- until the end -------------------------------------------------------------------------------------

    def _watch(self) -> tuple:
        """Copy the output until the replica and its descendants have ended; returns (code, signal)."""
        while self.status is None:
            self.loop.turn(self.kill_at)
            self._reap()
            now = self.loop.now()
            if self.status is None and self.kill_at is not None and now >= self.kill_at:
                node.kill(self.leader, signal.SIGKILL, os.killpg)
                self.kill_at = now + 1.0
        self.record["ended_at"] = time.time()
        self.record["stopped"] = self.is_stopped
        if self.probed:
            self.probed.end()
        self._wait_for_rest()
        node.kill_rest()
        for fd in list(self.pipes):
            while fd in self.pipes and self._copy(fd):
                pass
            self._close(fd)
        return node.exit_of(self.status)

    def _reap(self) -> bool:
        """Collect ended children; False when none is left."""
        left, ended = node.reap()
        if self.leader in ended:
            self.status, used = ended[self.leader]
            floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.record["use"] = of_child(used, floor, node.peak_of_task())
        for pid in ended.keys() & self.others.keys():
            code, number = node.exit_of(ended[pid][0])
            self.others.pop(pid)(-number if number else code)
        return left

    def _wait_for_rest(self) -> None:
        """Give the leader's remaining processes a moment, or the rest of the grace period, to end."""
        until = self.loop.now() + DRAIN_S if not self.is_stopped else self.kill_at
        while (self._reap() or (self.pipes and not self.is_stopped)) and (
            until is not None and self.loop.now() < until
        ):
            self.loop.turn(min(until, self.loop.now() + 0.05))
            if self.is_stopped and self.kill_at is not None:
                until = self.kill_at

    def _copy(self, fd: int) -> bool:
        """Copy one portion of output; False when the pipe is empty or closed."""
        try:
            size = os.readv(fd, [self.buffer])
        except BlockingIOError:
            return False
        if not size:
            self._close(fd)
            return False
        self.log.add(self.pipes[fd], self.buffer[:size])
        if self.pipes[fd] == "stderr":
            last = self.buffer[max(0, size - TAIL_BYTES - 1) : size]
            self.errors = (self.errors + bytes(last))[-TAIL_BYTES - 1 :]
        if PIPE_BYTES // 2 <= size <= PIPE_BYTES:
            try:
                fcntl.fcntl(fd, F_SETPIPE_SZ, BIG_PIPE_BYTES)
            except OSError:
                pass
        return True

    def _close(self, fd: int) -> None:
        if self.pipes.pop(fd, None):
            self.loop.forget(fd)
            os.close(fd)


def main(folder: str, text: str) -> int:
    step, task = json.loads(text), int(os.environ.get("SLURM_PROCID", "0"))
    what = {"role": step["role"], "run": step["run"], "k": step["ks"][task]}
    what.update(restarts=step["restarts"][task], stays=step["stays"][task])
    guardian = os.getpid()
    node.prctl(node.PR_SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if worker:
        return guard(worker, folder, what)
    code = 1
    try:
        node.prctl(node.PR_SET_PDEATHSIG, signal.SIGTERM)
        node.prctl(node.PR_SET_CHILD_SUBREAPER, 1)
        code = Worker(folder, what, guardian).main()
    except BaseException as error:
        node.say(f"{type(error).__name__}: {error}")
        raise
    finally:
        node.kill_rest()
        os._exit(code)
