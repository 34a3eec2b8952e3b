"""A scheduler in one file, to copy from: a replica is a process of this machine.

The base class keeps an app as a folder of files, $LAUNCHER_HOME/procs/<app id>/. Here is what differs from
one such scheduler to the next: how a replica is started, seen and stopped. Its own files:

    <role>.<k>.log            its output, and locked while anything writes to it
    <role>.<k>.{pid,code}     its process group, and its exit code

A killed client or replica gives its locks back to the kernel. There are no restarts and no timeouts, a failed
replica stops no other, and logs have no times.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from launcher.errors import StartError
from launcher.schedulers.appfolder import is_file_locked
from launcher.schedulers.folder import FolderScheduler, time_of
from launcher.specs import AppDef, Role, runopts
from launcher.state.records import ReplicaRecord

# The shell outlives the SIGTERM that its process group gets, to write down how the replica took it.
RUN = 'echo $$ >"$0.pid"; trap : TERM; "$@"; echo $? >"$0.code"'
GRACE_S = 10.0


class ProcsScheduler(FolderScheduler):
    """Runs replicas as processes."""

    workspace_option = "cwd"

    def _run_opts(self) -> runopts:
        opts = runopts()
        opts.add("cwd", str, "folder the replicas run in; the current one unless a job file says")
        return opts

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, Any]) -> None:
        """Processes need no resource."""

    def check_role(self, role: Role) -> None:
        if shutil.which(role.entrypoint, path=role.env.get("PATH")) is None:
            raise StartError(f"{role.name}/0: there is no executable `{role.entrypoint}`")

    def start_replica(self, stem: str, role: Role, env: Mapping[str, str], cfg: Mapping[str, Any]) -> None:
        """In a process group of its own, with its log as a lock on its life."""
        with open(f"{stem}.log", "wb") as log:
            fcntl.flock(log, fcntl.LOCK_EX)  # of the open file: all that inherit it hold it
            made = subprocess.Popen(
                ["sh", "-c", RUN, stem, role.entrypoint, *role.args],
                cwd=cfg.get("cwd") or ".",
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        made.returncode = 0  # nothing here waits for it: how it ended is in its files

    def replica(self, stem: str, role: str, k: int) -> ReplicaRecord:
        is_live = is_file_locked(f"{stem}.log")  # asked first: the exit code is written before the end
        found = ReplicaRecord(role, k, "running" if is_live else "lost", host="localhost")
        found.started_at = time_of(f"{stem}.pid")
        if not is_live:
            found.ended_at = time_of(f"{stem}.code")
            found.exit_code = number_in(f"{stem}.code")
            if found.exit_code is not None:
                found.state = "failed" if found.exit_code else "succeeded"
        return found

    def stop_replicas(self, stems: list[str], grace_s: float | None) -> None:
        kill_at = time.monotonic() + (GRACE_S if grace_s is None else grace_s)
        signalled: set[tuple[str, int]] = set()
        while live := [stem for stem in stems if is_file_locked(f"{stem}.log")]:
            signum = signal.SIGTERM if time.monotonic() < kill_at else signal.SIGKILL
            for stem in live:
                group = number_in(f"{stem}.pid")
                if group is not None and (stem, signum) not in signalled:
                    signalled.add((stem, signum))
                    with suppress(ProcessLookupError):  # it ends just now
                        os.killpg(group, signum)
            time.sleep(0.02)


def create_scheduler(session_name: str, detach: bool = False, **_: object) -> ProcsScheduler:
    """Replicas run as plain processes of this machine: an example of a scheduler."""
    return ProcsScheduler("procs", session_name, detach=detach)


def number_in(path: str) -> int | None:
    """The number that the shell wrote into a file; None where it has not yet."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    return int(text) if text else None
