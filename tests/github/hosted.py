"""Machines that GitHub lends for one run each: no process and no file stays on them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests import processes
from tests.engines.sshd import OPTIONS
from tests.github.workflow import Event, Ran, Runner

_ENDED_S = 60.0


class HostedRunner(Runner):
    """A new machine for each run, with LAUNCHER_HOME and HOME of the test."""

    def run(self, event: Event) -> dict[str, Ran]:
        self.renew()
        try:
            return super().run(event)
        finally:
            self.renew()

    def renew(self) -> None:
        """Kill each process that works for this state folder, and remove all files."""
        home, user = Path(os.environ["LAUNCHER_HOME"]), Path(os.environ["HOME"])
        pids = processes.of_home(str(home))
        processes.kill(pids)
        assert processes.gone(pids, timeout_s=_ENDED_S)
        for folder in (home, self.workspace, user / ".ssh", self.folder / "tools"):
            shutil.rmtree(folder, ignore_errors=True)
        self.workspace.mkdir(parents=True)

    def environment(self, event: Event, key: str, tracking: str) -> dict[str, str]:
        return {**super().environment(event, key, tracking), "RUNNER_ENVIRONMENT": "github-hosted"}

    def reads_keys_of_home(self) -> None:
        """Have `ssh` read the files below HOME, as it does on a machine whose user has that home."""
        ssh = shutil.which("ssh")
        path = self.bin / "ssh"
        path.write_text(
            f'#!/bin/sh\nexec {ssh} -F "$HOME/.ssh/config" -i "$HOME/.ssh/launcher" '
            f'-o UserKnownHostsFile="$HOME/.ssh/known_hosts" {OPTIONS} "$@"\n'
        )
        path.chmod(0o755)
