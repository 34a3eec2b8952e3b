"""A scheduler in one file, to copy from: a replica is a process of this machine.

The base class keeps an app as a folder of files, $LAUNCHER_HOME/procs/<app id>/. Here is what differs from
one such scheduler to the next: how a replica is started, seen and ended. Its own files:

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
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from launcher.errors import StartError
from launcher.filelock import is_file_locked
from launcher.schedulers.folder import FolderScheduler, number_in, time_of
from launcher.specs import Role, runopts
from launcher.state.records import ReplicaRecord

# The shell outlives the SIGTERM that its process group gets, to write down how the replica took it.
RUN = 'echo $$ >"$0.pid"; trap : TERM; "$@"; echo $? >"$0.code"'


class ProcsScheduler(FolderScheduler):
    """Runs replicas as processes."""

    workspace_option = "cwd"

    def _run_opts(self) -> runopts:
        opts = runopts()
        opts.add("cwd", str, "folder the replicas run in; the current one unless a job file says")
        return opts

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

    def end_replica(self, stem: str, *, by_force: bool) -> bool:
        group = number_in(f"{stem}.pid")
        if group is not None:
            with suppress(ProcessLookupError):  # it ends just now
                os.killpg(group, signal.SIGKILL if by_force else signal.SIGTERM)
        return group is not None


def create_scheduler(session_name: str, detach: bool = False, **_: object) -> ProcsScheduler:
    """Replicas run as plain processes of this machine: an example of a scheduler."""
    return ProcsScheduler("procs", session_name, detach=detach)
