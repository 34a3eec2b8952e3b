"""Run one replica of an app under srun: its process, its output, its probe and its own restarts.

Runs on the nodes of a cluster: Python >= 3.6, the standard library alone.
Usage: replica.py APP_DIR '{"role": index, "run": n, "restarts": [...], "retries": [...]}', by replica.

Two processes of this program look after a replica: the guardian, which srun starts, and its child, the
worker. Both adopt orphans, so that the other one kills what is left when either is killed. The worker reports
to stdout, which srun hands to the conductor: JSON lines of less than 1024 bytes, which srun keeps whole. On
stdin the conductor sends lines, which srun hands to every replica: `{"stop": reason, "grace_s": n}`.
"""

import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import stat
import time
from typing import Any

from launcher.schedulers.last_line import TAIL_BYTES, last_line
from launcher.schedulers.slurm.site.node import PR_SET_PDEATHSIG, append, now_ns, prctl, put, read_json, say

DRAIN_S = 0.5  # how long the rest of a replica may run, and its pipes stay open, after its leader ended
PIPE_BYTES = 64 * 1024
BIG_PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ = 1031
PR_SET_CHILD_SUBREAPER = 36
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
AGAIN_S = 0.2  # Slurm may send the same signal to guardian and worker: the replica gets it once
MOST_ERROR_BYTES = 1 << 20
MOST_TEXT = 300  # bytes of a reason within an event
ANSWER_S = 5.0
UNPROBED = "it was not probed yet"
FIRST_PROBE_S = 0.02
LONGEST_DELAY_S = 300
PLACE = re.compile("\u0001host:(.*?)\u0001", re.DOTALL)


def reap() -> tuple:
    """Collect ended children: (whether any child is left, {pid: wait status})."""
    ended: dict = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return True, ended
            ended[pid] = status
    except ChildProcessError:
        return False, ended


def descendants() -> list:
    """The pids of all processes below this one."""
    children: dict = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def kill_rest(limit_s: float = 5.0) -> None:
    """KILL everything below this process, which adopts orphans. Nothing is left when it has no child."""
    end = time.monotonic() + limit_s
    while reap()[0] and time.monotonic() < end:
        for pid in descendants():
            kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def kill(pid: int, number: int, send: Any = os.kill) -> None:
    try:
        send(pid, number)
    except OSError:
        pass


def exit_of(status: int) -> tuple:
    """(code as a shell says it, signal) of a wait status."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return (128 + number, number) if number else (os.WEXITSTATUS(status), 0)


class CannotStart(Exception):
    """A replica cannot be started; `code` is what a shell would say."""

    def __init__(self, message: str, code: int = 127) -> None:
        Exception.__init__(self, message)
        self.code = code


class Log:
    """The output of a replica, and the index that says when each part of it came, and from where."""

    def __init__(self, stem: str, on_loss: Any) -> None:
        self._on_loss = on_loss
        self._files: dict = {}
        self._lost = False
        self._stem = stem
        self._ends = {".log": 0, ".index": 0}

    def mark(self, kind: str) -> bool:
        """Write an index line for what comes next; False when it is lost."""
        line = "{} {} {}\n".format(self._end(".log"), now_ns(), kind)
        at = self._end(".index")
        if self._write(".index", line.encode()):
            return True
        try:
            os.ftruncate(self._files[".index"], at)
            self._ends[".index"] = at
        except (OSError, KeyError):
            pass
        return False

    def add(self, kind: str, data: memoryview) -> None:
        if self.mark(kind):
            self._write(".log", data)

    def open(self) -> None:
        """A silent replica has an empty log."""
        for name in self._ends:
            self._open(name)

    def _end(self, name: str) -> int:
        self._open(name)
        return self._ends[name]

    def _open(self, name: str) -> bool:
        if name not in self._files:
            try:
                path = self._stem + name
                fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._loss(error)
                return False
            self._files[name] = fd
            self._ends[name] = os.fstat(fd).st_size
        return True

    def _write(self, name: str, data: Any) -> bool:
        """Append; what does not fit is lost, as a replica must not wait for space."""
        if not self._open(name):
            return False
        rest = memoryview(data)
        try:
            while rest:
                count = os.write(self._files[name], rest)
                self._ends[name] += count
                rest = rest[count:]
        except OSError as error:
            self._loss(error)
            return False
        return True

    def _loss(self, error: OSError) -> None:
        if not self._lost:
            self._lost = True
            self._on_loss(error)


class Worker:
    """Runs the replica until it has ended for good."""

    def __init__(self, folder: str, what: dict, guardian: int) -> None:
        self.folder = folder
        with open(folder + "/app.json", encoding="utf-8") as file:
            self.app = json.load(file)
        self.k = k = int(os.environ.get("SLURM_PROCID", "0"))
        self.role = role = self.app["roles"][what["role"]]
        self.name = "{}/{}".format(role["name"], k)
        self.rules = (self.app.get("order") or {}).get(role["name"]) or {}
        self.spec = role["replicas"][k]
        self.restarts = what["restarts"][k]
        self.retries = what["retries"][k]
        self.run = what["run"]
        self.guardian = guardian
        self.replicas = "{}/replicas/{}".format(folder, role["folder"])
        for path in (self.replicas, "{}/logs/{}".format(folder, role["folder"]), folder + "/hosts"):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self.log = Log("{}/logs/{}/{}".format(folder, role["folder"], k), self._output_lost)
        self.record = {
            "role": role["name"],
            "k": k,
            "run": self.run,
            "state": "running",
            "host": socket.gethostname(),
            "started_at": None,
            "ended_at": None,
            "code": None,
            "signal": 0,
            "restarts": self.restarts,
            "stopped": "",
            "error_file": "",
        }
        self.stop_reason: Any = None
        self.kill_at: Any = None
        self.leader = 0
        self.status: Any = None
        self.errors = b""  # the end of its stderr, and a byte more where that is not all
        self.secrets: tuple = ()
        self.termed = False
        self.late = ""
        self.pipes: dict = {}
        self.probe_pid = 0
        self.probe_fd = -1
        self.probe_text = b""
        self.probe_why = UNPROBED
        self.probe_patient = False  # whether the first result is awaited beyond the time limit
        self.probe_until: Any = None
        self.forwarded: dict = {}
        self.commands = b""
        self.lost = ""
        self.poll = select.poll()
        self.buffer = memoryview(bytearray(BIG_PIPE_BYTES))
        self._watch_signals()
        self.poll.register(0, select.POLLIN)

    # -- reports -------------------------------------------------------------------------------------------

    def event(self, kind: str, **more: Any) -> None:
        found = {"e": kind, "role": self.role["name"], "k": self.k, "t": now_ns()}
        found.update(more)
        line = json.dumps(found)
        try:
            os.write(1, (line + "\n").encode())
        except OSError:
            pass
        try:
            append(f"{self.replicas}/{self.k}.events", line)
        except OSError:
            pass  # the conductor has it

    def save(self) -> None:
        try:
            put(f"{self.replicas}/{self.k}.json", json.dumps(self.record))
        except OSError as error:
            say(f"{self.name}: its record cannot be written: {error.strerror}")

    def _output_lost(self, error: OSError) -> None:
        text = f"log output was lost: {self.name}: {error.strerror}"
        say(text)
        self.event("warning", message=text)

    # -- signals and commands ------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        self.wake, wake = os.pipe()
        for fd in (self.wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake)
        for number in (*FORWARDED, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self.poll.register(self.wake, select.POLLIN)

    def _take_signals(self) -> None:
        try:
            numbers = os.read(self.wake, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            if number not in FORWARDED:
                continue
            if os.getppid() != self.guardian:
                self._abandoned("its wrapper was killed", 0.0)
                continue
            now = time.monotonic()
            if now - self.forwarded.get(number, -1.0) > AGAIN_S:
                self.forwarded[number] = now
                self.termed = self.termed or number == signal.SIGTERM
                if self.leader and self.status is None:
                    kill(self.leader, number, os.killpg)

    def _take_commands(self) -> None:
        try:
            data = os.read(0, PIPE_BYTES)
        except OSError:
            data = b""
        if not data:
            self.poll.unregister(0)
            self._abandoned("its step was killed", self.app["grace_s"])
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            message = json.loads(line.decode())
            if "stop" in message:
                self.stop(message["stop"], message["grace_s"])

    def _abandoned(self, why: str, grace_s: float) -> None:
        """Stop, as the process is gone that would stop the replica."""
        if self.stop_reason is None:
            self.lost = why
            self.stop(why, grace_s)

    def stop(self, reason: str, grace_s: float) -> None:
        """Send TERM, and KILL after the grace period; a second call can only shorten it."""
        kill_at = time.monotonic() + grace_s
        if self.stop_reason is None:
            self.stop_reason = reason
            self._terminate(kill_at)
        elif self.kill_at is not None:
            self.kill_at = min(self.kill_at, kill_at)

    def _terminate(self, kill_at: float) -> None:
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        if self.leader and self.status is None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a suspended process does not handle TERM
                kill(self.leader, number, os.killpg)

    # -- the loop ------------------------------------------------------------------------------------------

    def turn(self, until: Any = None) -> None:
        """Wait for something to happen, at most until a monotonic time."""
        wait_ms = None if until is None else max(0, int((until - time.monotonic()) * 1000) + 1)
        for fd, _ in self.poll.poll(wait_ms):
            if fd in self.pipes:
                self._copy(fd)
            elif fd == self.wake:
                self._take_signals()
            elif fd == 0:
                self._take_commands()
            elif fd == self.probe_fd:
                self._take_probe()

    def main(self) -> int:
        """Run the replica, again where its policy says so; its exit code."""
        while True:
            try:
                self._start()
            except CannotStart as error:
                return self._ended(error.code, 0, why=str(error))
            if not self.leader:  # it was stopped before
                return self._ended(128 + signal.SIGTERM, signal.SIGTERM)
            code, number = self._watch()
            delay_s = self._pause_before_retry(code)
            if delay_s is None:
                return self._ended(code, number)
            self._exit_event(code, number, final=False)
            self.retries += 1
            self.event("restart", scope="replica", n=self.retries, delay_s=delay_s)
            until = time.monotonic() + delay_s
            while self.stop_reason is None and time.monotonic() < until:
                self.turn(until)
            if self.stop_reason is not None:
                return self._ended(code, number)
            self.restarts += 1

    def _pause_before_retry(self, code: int) -> Any:
        """The pause before this replica is restarted alone; None where it is not."""
        if self.stop_reason is not None or self.termed or not (code or self.late):
            return None
        if self.role["policy"] != "REPLICA" or self.retries >= self.role["retries"]:
            return None
        return min(self.rules.get("retry_delay", 0) * 2 ** min(self.retries, 20), LONGEST_DELAY_S)

    def _exit_event(self, code: int, number: int, **more: Any) -> None:
        if self.late:
            more["late"] = short(self.late)
        if self.record["stopped"]:
            more["stopped"] = short(str(self.record["stopped"]))
        if self.termed:
            more["term"] = True
        if self.lost:
            more["lost"] = self.lost
        if self._said(code, number):
            more["said"] = short(self._said(code, number))
        self.event("exit", code=code, signal=number, **more)

    def _said(self, code: int, number: int) -> str:
        """The last line of stderr, of a replica that has failed by itself."""
        if not code or number or self.late or self.lost or self.record["stopped"]:
            return ""
        return last_line(self.errors[-TAIL_BYTES:], self.secrets, whole=len(self.errors) <= TAIL_BYTES)

    def _ended(self, code: int, number: int, why: str = "") -> int:
        self.record.update(state="ended", code=code, signal=number, why=why, late=self.late)
        if self.record["ended_at"] is None:
            self.record["ended_at"] = time.time()
        if not self.leader and self.stop_reason is not None:
            self.record["stopped"] = self.stop_reason
        if self.lost:
            self.record.update(lost=self.lost, stopped="")
        if not why:
            self.record["error_file"] = self._error_text()
            self.record["said"] = self._said(code, number)
        self.save()
        more = {"why": short(why), "host": self.record["host"]} if why else {}
        self._exit_event(code, number, final=True, **more)
        return code

    def _error_text(self) -> str:
        """What the replica left in its error file; "" for none, or for what is no plain file."""
        try:
            fd = os.open(self.error_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return ""
        with open(fd, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ""
            try:
                return (file.read(MOST_ERROR_BYTES) or b"").decode("utf-8", "replace")
            except OSError:
                return ""

    # -- start ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.leader, self.status, self.late, self.kill_at = 0, None, "", None
        self.errors = b""
        if self.k == 0:
            self._tell_host()
        argv, env = self._command()
        if self.stop_reason is not None:
            return
        cwd = raw(self.app.get("cwd") or self.folder + "/workspace")
        self.error_path = env[b"TORCHELASTIC_ERROR_FILE"]
        try:
            os.makedirs(os.path.dirname(self.error_path), exist_ok=True)
            os.unlink(self.error_path)
        except OSError:
            pass
        path = find_executable(argv[0], env.get(b"PATH", os.defpath.encode()), cwd)
        probe = self.rules.get("ready")
        stamp = None
        if probe:
            self._check_port(probe)
            stamp = stamp_of(cwd, probe["file"]) if "file" in probe else None
        self.log.open()
        if self.restarts:
            self.log.mark("restart")
        self.record.update(state="running", restarts=self.restarts, started_at=time.time(), ended_at=None)
        self.record.update(code=None, signal=0, stopped="")
        self._spawn(path, argv, env, cwd)
        step = os.environ.get("SLURM_STEP_ID", "")
        self.event("spawn", restart=self.restarts, run=self.run, host=self.record["host"], step=step)
        self.save()
        if probe:
            self._begin_probe(probe, env, cwd, stamp)

    def _tell_host(self) -> None:
        try:
            put("{}/hosts/{}".format(self.folder, self.role["folder"]), str(self.record["host"]))
        except OSError as error:
            raise CannotStart(f"cannot write {self.folder}: {error.strerror}", 1) from error

    def _command(self) -> tuple:
        """argv and environment, as bytes, with the hosts of other roles, as soon as those are known."""
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
            if self.stop_reason is not None:
                break
        env = dict(os.environb)
        inherited = env.get(b"PATH")
        env.update({raw(name): self._fill(value) for name, value in own.items()})
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
        # A list of the folder is asked from the server; a missing name is cached.
        while self.app["hosts"][role] not in os.listdir(self.folder + "/hosts"):
            until = time.monotonic() + pause_s
            self.turn(until)
            if self.stop_reason is not None:
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

        return raw(PLACE.sub(host, text).replace("\u0001dir\u0001", self.folder))

    def _check_port(self, probe: dict) -> None:
        """The first replica of a node finds the port of its probe free."""
        if "port" in probe and os.environ.get("SLURM_LOCALID", "0") == "0" and not self.restarts:
            why = taken_port(probe["port"])
            if why:
                raise CannotStart(why, 1)

    def _spawn(self, path: bytes, argv: list, env: dict, cwd: bytes) -> None:
        """Start the leader of the replica, in a session of its own, with pipes for its output."""
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        problem, problem_end = os.pipe()
        pid = os.fork()
        if not pid:
            start_child(lambda: become(path, argv, env, cwd, out_end, err_end), problem_end)
        for fd in (out_end, err_end, problem_end):
            os.close(fd)
        with open(problem, "rb") as file:
            number = file.read()
        if number:
            os.close(out)
            os.close(err)
            os.waitpid(pid, 0)
            text = number.decode()
            why = os.strerror(int(text)) if text.isdigit() else text
            raise CannotStart("{}: {}".format(argv[0].decode(errors="replace"), why), 126)
        self.leader = pid
        for fd, kind in ((out, "stdout"), (err, "stderr")):
            os.set_blocking(fd, False)
            self.pipes[fd] = kind
            self.poll.register(fd, select.POLLIN)

    # -- until the end -------------------------------------------------------------------------------------

    def _watch(self) -> tuple:
        """Copy the output until the replica, and all below it, has ended: (code, signal)."""
        while self.status is None:
            until = [each for each in (self.kill_at, self.probe_until) if each is not None]
            self.turn(min(until) if until else None)
            self._reap()
            now = time.monotonic()
            if self.status is None and self.kill_at is not None and now >= self.kill_at:
                kill(self.leader, signal.SIGKILL, os.killpg)
                self.kill_at = now + 1.0
            if self.probe_until is not None and now >= self.probe_until:
                self._is_late()
        self.record["ended_at"] = time.time()
        if self.stop_reason is not None:
            self.record["stopped"] = self.stop_reason
        self._end_probe()
        self._wait_for_rest()
        kill_rest()
        for fd in list(self.pipes):
            while fd in self.pipes and self._copy(fd):
                pass
            self._close(fd)
        return exit_of(self.status)

    def _reap(self) -> bool:
        """Collect ended children; False when none is left."""
        left, ended = reap()
        if self.leader in ended:
            self.status = ended[self.leader]
        if self.probe_pid in ended:
            self.probe_pid = 0
        return left

    def _wait_for_rest(self) -> None:
        """Give what the leader left behind a moment, or the rest of the grace period, to end by itself."""
        until = time.monotonic() + DRAIN_S if self.stop_reason is None else self.kill_at
        while (self._reap() or (self.pipes and self.stop_reason is None)) and (
            until is not None and time.monotonic() < until
        ):
            self.turn(min(until, time.monotonic() + 0.05))
            if self.stop_reason is not None and self.kill_at is not None:
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
            self.poll.unregister(fd)
            os.close(fd)

    # -- probes --------------------------------------------------------------------------------------------

    def _begin_probe(self, probe: dict, env: dict, cwd: bytes, stamp: Any) -> None:
        """Probe in a process of its own, which may wait."""
        self.probe_fd, end = os.pipe()
        self.probe_text, self.probe_why, self.probe_patient = b"", UNPROBED, False
        self.probe_until = time.monotonic() + probe.get("timeout", 60)
        pid = os.fork()
        if not pid:
            start_child(lambda: probe_until_ready(probe, env, cwd, stamp, end))
        self.probe_pid = pid
        os.close(end)
        self.poll.register(self.probe_fd, select.POLLIN)

    def _take_probe(self) -> None:
        data = os.read(self.probe_fd, PIPE_BYTES)
        *lines, self.probe_text = (self.probe_text + data).split(b"\n")
        for line in lines:
            self.probe_why = json.loads(line.decode())
        if not data or (lines and not self.probe_why):
            self.poll.unregister(self.probe_fd)
            os.close(self.probe_fd)
            self.probe_fd = -1
        if lines and self.probe_why and self.probe_patient:
            self.probe_until = time.monotonic()
        is_open = self.status is None and self.stop_reason is None and not self.late
        if lines and not self.probe_why and is_open:
            self.probe_until = None
            self.record["state"] = "ready"
            self.save()
            self.event("ready")

    def _is_late(self) -> None:
        after_s = self.rules["ready"].get("timeout", 60)
        if self.probe_why == UNPROBED and not self.probe_patient:  # on a busy node
            self.probe_patient = True
            self.probe_until = time.monotonic() + ANSWER_S
            return
        self.probe_until, self.probe_patient = None, False
        if self.stop_reason is None:
            self.late = f"not ready after {after_s:g} s: {self.probe_why}"
            self._terminate(time.monotonic() + self.app["grace_s"])

    def _end_probe(self) -> None:
        self.probe_until = None
        if self.probe_pid:
            kill(self.probe_pid, signal.SIGKILL, os.killpg)
            kill(self.probe_pid, signal.SIGKILL)
        if self.probe_fd >= 0:
            self.poll.unregister(self.probe_fd)
            os.close(self.probe_fd)
            self.probe_fd = -1


# -- children ----------------------------------------------------------------------------------------------


def short(text: str) -> str:
    """The beginning of a text, of which a line of an event has room for so much."""
    room = MOST_TEXT
    if len(json.dumps(text)) <= room:
        return text
    while len(json.dumps(text[:room])) > MOST_TEXT:
        room -= 10
    return text[:room] + " \u2026"


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def find_executable(name: bytes, path: bytes, cwd: bytes) -> bytes:
    """The file that argv[0] names: looked up in the replica's own PATH, relative to its own directory."""
    shown = name.decode(errors="replace")
    try:
        os.makedirs(cwd, mode=0o700, exist_ok=True)
    except OSError:
        pass
    if not os.path.isdir(cwd):
        raise CannotStart("no such working directory: " + cwd.decode(errors="replace"))
    if not name:
        raise CannotStart("the entrypoint is empty")
    folders = [b""] if b"/" in name else path.split(b":")
    found = [each for each in (os.path.join(cwd, one, name) for one in folders) if os.path.isfile(each)]
    for each in found:
        if os.access(each, os.X_OK):
            return each
    if found:
        raise CannotStart("not executable: " + found[0].decode(errors="replace"), 126)
    where = "" if b"/" in name else " in PATH ({})".format(path.decode(errors="replace"))
    raise CannotStart(f"no such executable: {shown}{where}")


def start_child(run: Any, problem: Any = None) -> None:
    """In a child: run something that ends this process; the reason to `problem` where it cannot."""
    try:
        worker = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != worker:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):  # the C library's own
                    pass
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setsid()
        run()
        os._exit(0)
    except BaseException as error:
        text = str(getattr(error, "errno", None) or error)
        if problem is not None:
            os.write(problem, text.encode())
        os._exit(126)


def become(path: bytes, argv: list, env: dict, cwd: bytes, out: int, err: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((null, 0), (out, 1), (err, 2)):
        os.dup2(fd, number)
    os.chdir(cwd)
    try:
        os.execve(path, argv, env)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve(b"/bin/sh", [b"sh", path, *argv[1:]], env)  # a script without its first line, as shells do


def probe_until_ready(probe: dict, env: dict, cwd: bytes, stamp: Any, end: int) -> None:
    """Write what is missing, each time that it changes, and "" in the end."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    pause_s, last = FIRST_PROBE_S, None
    while last != "":
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, probe.get("every", 1))
        if "command" in probe and last is None:
            os.write(end, (json.dumps("`{}` has not ended yet".format(probe["command"][0])) + "\n").encode())
        why = probe_once(probe, env, cwd, stamp)
        if why != last:
            os.write(end, (json.dumps(why) + "\n").encode())
        last = why


def probe_once(probe: dict, env: dict, cwd: bytes, stamp: Any) -> str:
    """What is missing; "" when the replica is ready."""
    if "file" in probe:
        found = stamp_of(cwd, probe["file"])
        if found is None:
            return "there is no file " + probe["file"]
        return "" if found != stamp else "the file {} is older than the replica".format(probe["file"])
    if "command" in probe:
        return probe_command([raw(each) for each in probe["command"]], env, cwd)
    return probe_port(probe["port"], probe.get("http"))


def probe_command(argv: list, env: dict, cwd: bytes) -> str:
    program = argv[0].decode(errors="replace")
    try:
        path = find_executable(argv[0], env.get(b"PATH", os.defpath.encode()), cwd)
    except CannotStart as error:
        return str(error)
    pid = os.fork()
    if not pid:
        try:
            os.chdir(cwd)
            os.execve(path, argv, env)
        finally:
            os._exit(126)
    code, number = exit_of(os.waitpid(pid, 0)[1])
    if number:
        return f"`{program}` was killed by signal {number}"
    return f"`{program}` exited with {code}" if code else ""


def probe_port(port: int, path: Any) -> str:
    why = f"nothing listens on port {port}"
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "")):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with sock:
            sock.settimeout(ANSWER_S)
            try:
                sock.connect((host or socket.gethostname(), port))
            except OSError:
                continue
            if sock.getsockname() == sock.getpeername():  # a free port may be the one that it comes from
                continue
            if path is None:
                return ""
            why = probe_http(sock, f"GET {path} on port {port}", str(path), port)
            if not why:
                return ""
    return why


def probe_http(sock: socket.socket, what: str, path: str, port: int) -> str:
    request = f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
    answer = b""
    try:
        sock.sendall(request.encode())
        while len(answer) < len(b"HTTP/1.1 200"):
            data = sock.recv(4096)
            if not data:
                break
            answer += data
    except socket.timeout:
        return f"{what} has no answer within {ANSWER_S:g} s"
    except OSError as error:
        return f"{what}: {error.strerror}"
    code = answer[9:12]
    if not answer.startswith(b"HTTP/1.") or not code.isdigit():
        return what + (" has an answer that is not HTTP" if answer else " has no answer")
    return "" if code[:1] in (b"2", b"3") else f"{what} answers {code.decode()}"


def stamp_of(cwd: bytes, name: str) -> Any:
    """What changes when a file is written or made anew; None without a file."""
    try:
        found = os.stat(os.path.join(cwd, raw(name)))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def taken_port(port: int) -> str:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return f"port {port} is in use by another process, so its probe would find that one"
    return ""


# -- the guardian ------------------------------------------------------------------------------------------


def guard(worker: int, folder: str, what: dict) -> int:
    """Wait for the worker, hand signals on, kill what it left; the exit code."""
    for number in FORWARDED:
        signal.signal(number, lambda number, _: kill(worker, number))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == worker:
            break
    kill_rest()
    code, number = exit_of(status)
    if number:
        record_death(folder, what, code, number)
    return code


def record_death(folder: str, what: dict, code: int, number: int) -> None:
    """Record the end of a replica whose worker was killed: what it ran was killed with it."""
    with open(folder + "/app.json", encoding="utf-8") as file:
        role = json.load(file)["roles"][what["role"]]
    k = int(os.environ.get("SLURM_PROCID", "0"))
    path = "{}/replicas/{}/{}.json".format(folder, role["folder"], k)
    record = {"role": role["name"], "k": k, "host": socket.gethostname(), "restarts": what["restarts"][k]}
    record.update(started_at=None, stopped="", error_file="")
    found = read_json(path)
    if found is not None and found["run"] == what["run"] and found["state"] != "ended":
        record = found
    record.update(run=what["run"], state="ended", ended_at=time.time(), code=code, signal=number)
    try:
        put(path, json.dumps(record))
    except OSError:
        pass
    event = {"e": "exit", "role": role["name"], "k": k, "code": code, "signal": number, "final": True}
    os.write(1, (json.dumps(dict(event, t=now_ns())) + "\n").encode())


def main(folder: str, text: str) -> int:
    what = json.loads(text)
    guardian = os.getpid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if worker:
        return guard(worker, folder, what)
    code = 1
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        code = Worker(folder, what, guardian).main()
    except BaseException as error:
        say(f"{type(error).__name__}: {error}")
        raise
    finally:
        kill_rest()
        os._exit(code)
