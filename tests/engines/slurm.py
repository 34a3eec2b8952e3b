"""A Slurm cluster as the tests see it, made by `tests/engines/slurm`: commands and files, no code of ours."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests import processes
from tests.waiting import until

HERE = "TESTS_SLURM"
THERE = "TESTS_SLURM_SSH"
"""Variables that name the folders of two clusters: one of this machine, one that only ssh reaches."""

LOGIN = "login1"
"""The host of a cluster that ssh reaches."""

USER = "TESTS_SSH_USER"
"""Variable that names the user on LOGIN."""

_PROGRAM = Path(__file__).resolve().parent / "slurm"
_COMMAND_S = 60.0
EMPTY_S = 60.0
END_S = 150.0
"""How long the slowest state may take to come."""

T = TypeVar("T")
_POLL_S = 0.1


class Job(NamedTuple):
    """A line of squeue."""

    id: str
    name: str
    user: str
    state: str
    folder: str

    def __str__(self) -> str:
        return f"job {self.id} {self.name} ({self.state})"


class SlurmCluster:
    """One cluster below `folder`; its operator is root. `user` submits to it, over ssh."""

    def __init__(self, folder: str | Path, user: str = "") -> None:
        self.folder = Path(folder)
        self.user = user

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def is_remote(self) -> bool:
        return (self.folder / "ssh").is_dir()

    @property
    def home(self) -> Path:
        """The home of `user`, as this machine sees it."""
        return self.folder / "home" / self.user

    @property
    def shared(self) -> Path:
        """A folder under one path on this machine and the cluster; what either makes there, both use."""
        return self.folder / "shared" / self.user

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command of Slurm; return its output. Raises CalledProcessError, unless `check` is off."""
        environ = {**os.environ, "SLURM_CONF": str(self.conf)}
        got = subprocess.run(
            [*self._into(), *argv],
            env=environ,
            check=check,
            timeout=_COMMAND_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return got.stdout

    def _into(self) -> list[str]:
        """Return the words before a command that root runs in the system of a cluster which has its own.

        Not over ssh, where each connection takes longer than the commands of tests.
        """
        if not self.is_remote:
            return []
        pid = (self.folder / "munged.pid").read_text().strip()
        return [
            "nsenter",
            "--target",
            pid,
            "--mount",
            "--uts",
            "chroot",
            str(self.folder / "system" / "root"),
        ]

    def answers(self) -> bool:
        if not self.conf.exists():
            return False
        try:
            self.run("sinfo", "-h")
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def jobs(self, *, user: str = "", below: str = "", ended: bool = False) -> list[Job]:
        """Return the jobs in the queue: of one user, of a working folder, or all.

        ended: also the jobs that have ended, as far as Slurm remembers them.
        """
        columns = "JobID:20,Name:200,UserName:40,State:20,WorkDir:400"
        who = [f"--user={user}"] if user else []
        states = ["--states=all"] if ended else []
        lines = self.run("squeue", "-h", "-O", columns, *who, *states).splitlines()
        found = [Job(*_cut(line, 20, 200, 40, 20, 400)) for line in lines]
        return [job for job in found if job.folder.startswith(below)]

    def cancel(self, jobs: list[Job]) -> None:
        """End jobs by force."""
        if jobs:
            self.run("scancel", *(job.id for job in jobs), check=False)

    def clear(self, *, user: str = "", below: str = "") -> list[Job]:
        """Wait until the queue is empty; end the jobs that remain by force, and return them."""
        if left := self._last(EMPTY_S, user, below):
            self.cancel(left)
            self._last(EMPTY_S, user, below)
        return left

    def _last(self, seconds: float, user: str, below: str) -> list[Job]:
        deadline = time.monotonic() + seconds
        while (left := self.jobs(user=user, below=below)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return left

    # what an operator does

    def kill(self, daemon: str) -> None:
        """SIGKILL slurmctld, slurmdbd or a node's slurmd (n1, n2, …), and wait for its death."""
        self._do("kill", daemon)

    def stop_controller(self) -> None:
        """End slurmctld as its operator does, so that it saves its state. Waits for its death."""
        pid = int((self.folder / "slurmctld.pid").read_text())
        self.run("scontrol", "shutdown", "slurmctld")
        assert processes.gone([pid], timeout_s=_COMMAND_S)

    @property
    def memory(self) -> Path:
        """Return the folder of the controller's saved state."""
        return self.folder / "state" / "slurmctld"

    @contextmanager
    def stopped(self) -> Iterator[Path]:
        """Stop the controller for this context, which gets the folder of its saved state; then start it."""
        self.stop_controller()
        yield self.memory
        self.start("slurmctld")

    def forget(self) -> None:
        """Restart the controller without its saved state: it counts jobs from 1 again."""
        with self.stopped() as memory:
            shutil.rmtree(memory)
            memory.mkdir()

    def number_jobs_from(self, first: int) -> None:
        """Have the controller, once it is started again, use no lower id for a new job.

        One that lost its last state would use ids again, which nodes refuse while they know of the old jobs.
        """
        lines = self.conf.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("FirstJobId=")]
        self.conf.write_text("\n".join([*kept, f"FirstJobId={first}", ""]))

    def hide(self, folder: Path) -> None:
        """Keep a folder from all nodes, as if it were not shared."""
        pid = (self.folder / "munged.pid").read_text().strip()
        command = ["nsenter", "--target", pid, "--mount", "mount", "-t", "tmpfs", "hidden", str(folder)]
        subprocess.run(command, check=True, timeout=_COMMAND_S)

    def start(self, daemon: str) -> None:
        """Start a killed daemon again, and wait until the controller answers."""
        self._do("start", daemon)
        until(self.answers)

    def add_user(self) -> int:
        """Make `user`, with a home; the uid."""
        return int(self._do("user", self.user))

    def down(self) -> None:
        """End all processes of the cluster, and remove its folder."""
        self._do("down")

    def _do(self, word: str, *argv: str) -> str:
        return _program(word, str(self.folder), *argv)


_ACL_USER, _ACL_GROUP, _ACL_OTHER = 0x01, 0x04, 0x20
_OPEN_TO_ALL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", who, 0o7, 0xFFFFFFFF) for who in (_ACL_USER, _ACL_GROUP, _ACL_OTHER)
)


def _cut(line: str, *widths: int) -> list[str]:
    found = []
    for width in widths:
        found.append(line[:width].strip())
        line = line[width:]
    return found


def _program(*argv: str) -> str:
    ran = subprocess.run(
        [str(_PROGRAM), *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    assert ran.returncode == 0, f"tests/engines/slurm {' '.join(argv)} exited {ran.returncode}"
    return ran.stdout


class OwnCluster(SlurmCluster):
    """A cluster that one test has to itself, to break it. Options are those of `tests/engines/slurm up`."""

    def __init__(self, *options: str) -> None:
        super().__init__(tempfile.mkdtemp(prefix="lt-"))
        self._options = options

    def __enter__(self) -> OwnCluster:
        try:
            self._do("up", *self._options)
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()


@contextmanager
def own_user(cluster: SlurmCluster) -> Iterator[int]:
    """`user` of a cluster that ssh reaches, for one test; afterwards its processes and folders are gone."""
    uid = cluster.add_user()
    cluster.shared.mkdir()
    cluster.shared.chmod(0o777)
    # Or the umask closes files and pipes of one side to the other.
    os.setxattr(cluster.shared, "system.posix_acl_default", _OPEN_TO_ALL)
    try:
        yield uid
    finally:
        left = processes.of_user(uid)
        processes.kill(left)
        processes.gone(left, timeout_s=EMPTY_S)
        for folder in (cluster.home, cluster.shared):
            shutil.rmtree(folder, ignore_errors=True)


def here_reason() -> str:
    """Return why the tests cannot use a cluster of this machine; "" when they can."""
    return _reason(HERE, "up DIR")


def there_reason() -> str:
    """Return why the tests cannot use a cluster over ssh; "" when they can."""
    return _reason(THERE, "up DIR --ssh")


def _reason(variable: str, how: str) -> str:
    folder = os.environ.get(variable, "")
    if folder and _answered(folder):
        return ""
    found = f"no cluster answers in {folder}" if folder else f"{variable} names no cluster"
    return f"{found}; tests/engines/slurm {how} starts one as root, for {variable}=DIR"


@functools.cache
def _answered(folder: str) -> bool:
    """Return whether a cluster answers, asked once: over ssh that takes as long as a small test."""
    return SlurmCluster(folder).answers()


def own_reason(*commands: str) -> str:
    """Return why a test cannot start a cluster of its own that has further commands; "" when it can."""
    if os.geteuid() != 0:
        return "only root can start a Slurm cluster"
    needed = ("slurmctld", "slurmd", "munged", "sbatch", *commands)
    missing = [name for name in needed if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
    return f"there is no `{'`, no `'.join(missing)}` command" if missing else ""
