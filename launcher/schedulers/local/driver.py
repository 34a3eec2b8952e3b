"""Drive the processes of an app for the loop of `launcher.holding.hold`, and report their events as facts."""

import os
import time

from launcher.holding.replica import Replica as HeldReplica
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.logwriter import FILES_PER_REPLICA, NAMES
from launcher.schedulers.local.replicas import Replica, Replicas
from launcher.schedulers.local.spawn import SpawnError
from launcher.schedulers.loop import SteadyClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from launcher.holding.app import App
    from launcher.schedulers.local.logwriter import LogWriter
    from launcher.schedulers.local.probes import ReplicaProbes
    from launcher.schedulers.local.replicas import RunningRole
    from launcher.schedulers.local.spawn import Spawner
    from launcher.schedulers.loop import Loop

    Event = dict[str, Any]

CANNOT_RUN = 127
"""The exit code of a replica that could not be started, as a shell gives it."""


class Driver:
    """The processes of one app.

    Args:
        grace_s: seconds that replicas may take to stop, unless the stop gives its own.
        secrets: values that no event may hold.

    Attributes:
        on_spawn_error: called when a replica cannot be started; may raise, to undo the submission.
        on_swept: called when no process is left; it has to cause the fact `quiet`.
    """

    def __init__(
        self,
        app: "App",
        roles: "Sequence[RunningRole]",
        loop: "Loop",
        spawner: "Spawner",
        logs: "LogWriter",
        *,
        grace_s: float,
        secrets: "Sequence[str]",
    ) -> None:
        self._facts: list[Event] = []  # the facts that `wait` returns next
        self._probed: dict[Replica, ReplicaProbes] = {}  # the probes of each replica's present run
        self._has_started = False  # every replica that waits for no other
        self.on_spawn_error: Callable[[SpawnError], None]
        self.on_swept: Callable[[], None]
        self.processes = Replicas(loop, spawner, logs, self._ended)
        self._app = app
        self._roles = {role.name: role for role in roles}
        self.loop = loop
        self.spawner = spawner
        self._grace_s = grace_s
        self._secrets = tuple(secrets)
        self._keeps_requests = any(role.retries for role in app.roles.values())
        self._clock = SteadyClock()

    # -- the work of the loop ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Note the clock of the event `starting`, which has just been recorded."""
        self._clock = SteadyClock()

    def now(self) -> float:
        """Return epoch seconds; a change of the system's clock counts only from its fact `clock` on."""
        return self._clock.now()

    def start(self, replicas: "Sequence[HeldReplica]") -> None:
        """Start these replicas; see `launcher.holding.hold.Driver`."""
        for held in replicas:
            replica = self._process(held)
            replica.restarts = held.restarts
            try:
                self._start(replica)
            except SpawnError as error:
                error.role, error.k = replica.role.name, replica.k
                self.on_spawn_error(error)
                self.add("exit", role=error.role, k=error.k, code=CANNOT_RUN, signal=0, why=str(error))
        os.chdir("/")  # the supervisor must not keep a replica's directory busy
        if not self._app.to_start and not self._has_started:
            self._has_started = True
            self.add("started")

    def _start(self, replica: "Replica") -> None:
        probed = None
        if replica.role.probe:
            from launcher.schedulers.local.probes import ReplicaProbes

            probed = ReplicaProbes(replica, self)
        self.processes.start(replica)
        pid = replica.pid
        start, number = pids.start_time(pid), replica.restarts
        self.add("spawn", role=replica.role.name, k=replica.k, pid=pid, start=start, restart=number)
        if probed:
            self._probed[replica] = probed
            probed.begin()
        elif not self._keeps_requests:
            replica.packed = b""

    def stop(self, replicas: "Sequence[tuple[HeldReplica, float | None]]") -> None:
        """Stop these replicas; see `launcher.holding.hold.Driver`."""
        by_grace: dict[float, list[Replica]] = {}
        for held, grace_s in replicas:
            by_grace.setdefault(self._grace_s if grace_s is None else grace_s, []).append(self._process(held))
        for grace_s, processes in by_grace.items():
            self.processes.stop(processes, grace_s)

    def quiet(self) -> None:
        self.processes.sweep(self.on_swept)

    def wait(self, deadline: "float | None") -> "list[Event]":
        """The facts since the last call; waits for one until `deadline`, unless there is work to do."""
        until = None if deadline is None else time.monotonic() + deadline - self.now()
        is_busy = self._facts or self._app.to_start or self._app.to_stop
        self.loop.turn(0.0 if is_busy else until)
        facts, self._facts = self._facts, []
        clock = self._clock.set_since()
        return facts if clock is None else [clock, *facts]

    # -- facts ---------------------------------------------------------------------------------------------

    def add(self, kind: str, at_ns: int = 0, **fields: "Any") -> None:
        """Report a fact, with the present time or `at_ns`."""
        self._facts.append({"e": kind, "t": at_ns or time.time_ns(), **fields})

    def _ended(self, replica: "Replica") -> None:
        role, k = replica.role.name, replica.k
        more: Event = {"oom": True} if replica.oom else {}
        if replica.late:
            more["late"] = replica.late
        elif replica.interrupted:
            more["stopped"] = True
        elif replica.code and not replica.signal and (said := self._last_line(replica)):
            more["said"] = said
        elif not replica.code and replica in self._probed and self._probed[replica].has_file():
            more["ready"] = True
        code, number = replica.code, replica.signal
        self.add("exit", replica.ended_ns, role=role, k=k, code=code, signal=number, **more, use=replica.use)

    def _last_line(self, replica: "Replica") -> str:
        """The last line of its stderr, "" for none."""
        try:
            from launcher.schedulers.ended_process import last_line
            from launcher.schedulers.local.stderr import stderr_tail
        except ImportError:  # this launcher was removed while the app ran
            return ""
        tail, is_whole = stderr_tail(replica.log.folder, replica.log.segment)
        return last_line(tail, self._secrets, whole=is_whole)

    def is_ready(self, replica: "Replica") -> None:
        replica.ready = True
        self.add("ready", role=replica.role.name, k=replica.k)

    def is_late(self, replica: "Replica", why: str) -> None:
        replica.late = why
        self.add("late", role=replica.role.name, k=replica.k, why=why)

    def _process(self, held: "HeldReplica") -> "Replica":
        return self._roles[held.role.name].replicas[held.k]


# -- before the start ------------------------------------------------------------------------------------

FILES_OF_OURS = 64
PIPES_PER_REPLICA = 2


class Preparation:
    """The folders that were made for an app.

    Args:
        unmade: roles whose executable and folder another role may make before they start.

    Attributes:
        replicas: the replicas to prepare for.
        made: the folders that `unmake` removes, parents first; those among `log_folders` with their contents.
        log_folders: the folders of logs; of those that it has not made, `unmake` removes the log files.
    """

    def __init__(
        self, replicas: "Sequence[Replica]", spawner: "Spawner", unmade: "Collection[str]" = ()
    ) -> None:
        self._unmade = unmade
        self._spawner = spawner
        self.replicas = replicas
        self.made: list[str] = []
        self.log_folders: list[str] = []

    @property
    def spare_files(self) -> int:
        """The number of files that may be open besides the pipes of all replicas."""
        return self._spawner.max_files - FILES_OF_OURS - PIPES_PER_REPLICA * len(self.replicas)

    def make(self, scratch: str) -> None:
        """Check as far as possible that every replica can start; make the log folders and `scratch`.

        Raises SpawnError; call `unmake` then.
        """
        if self.spare_files < FILES_PER_REPLICA:
            number = len(self.replicas)
            what = f"{number} replicas need" if number > 1 else "1 replica needs"
            files = f"more open files than the {self._spawner.max_files} that the system allows (ulimit -Hn)"
            raise SpawnError(f"{what} {files}")
        self._make_folder(scratch)
        for replica in self.replicas:
            try:
                if replica.role.name not in self._unmade:
                    self._spawner.check(replica.packed, replica.role.common)
                self._make_log_folder(replica.log.folder)
            except SpawnError as error:
                error.role, error.k = replica.role.name, replica.k
                raise

    def make_output(self, folder: str) -> None:
        """Make the app's output folder, "" for none, unless an attempt of its edition has. Raises SpawnError.

        It is open to other users, since containers read it as other users; the folders around it are private.
        """
        if folder and self._make_folder(folder):
            try:
                os.chmod(folder, 0o755)
            except OSError as error:
                raise SpawnError(f"cannot open the folder {folder} to others: {error.strerror}") from error

    def keep(self) -> None:
        """Keep the folders: the app is running."""
        self.made, self.log_folders = [], []

    def unmake(self) -> None:
        """Remove the made folders with their contents, and the log files in existing folders."""
        from launcher.schedulers.appfolder import remove_tree

        made = set(self.made)
        for folder in self.log_folders:
            if folder in made:
                remove_tree(folder)
            else:
                for name in NAMES:
                    _quietly(os.unlink, os.path.join(folder, name))
        for folder in reversed(self.made):
            _quietly(os.rmdir, folder)  # a parent, which may hold files of other programs
        self.keep()

    def _make_log_folder(self, folder: str) -> None:
        if not self._make_folder(folder):
            for name in NAMES:
                if os.path.lexists(os.path.join(folder, name)):
                    raise SpawnError(f"{folder} already holds the logs of another run")
        self.log_folders.append(folder)

    def _make_folder(self, folder: str) -> bool:
        try:
            return rundir.make_folders(folder, self.made)
        except OSError as error:
            raise SpawnError(f"cannot make the folder {folder}: {error.strerror}") from error


def _quietly(remove: "Callable[[str], None]", path: str) -> None:
    try:
        remove(path)
    except OSError:
        pass
