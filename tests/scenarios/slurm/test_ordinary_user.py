"""The life of an app whose user is not root, on the cluster of this machine, which runs jobs as that user."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.specs import AppState
from tests import processes
from tests.forkserver import Done
from tests.slurm_scenario import SlurmScenario

USER = "nobody"
"""Slurm's daemons must know the user, which every system has."""

RIGHTS = "-all,+dac_read_search"
"""It may read what others may not, since the interpreter of the tests may lie in the home of root."""

AS_USER = [
    "setpriv",
    *("--reuid", USER, "--regid", str(pwd.getpwnam(USER).pw_gid), "--clear-groups"),
    *("--inh-caps", RIGHTS, "--ambient-caps", RIGHTS, "--bounding-set", RIGHTS),
]


class OrdinaryScenario(SlurmScenario):
    """A scenario whose commands run as USER."""

    def _done(self, argv: list[str], timeout_s: float, popen: dict[str, Any]) -> Done:
        command = [*AS_USER, sys.executable, "-m", "launcher", *argv]
        popen = {"cwd": self.folder, "stdin": subprocess.DEVNULL, **popen}
        got = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, **popen)
        return Done(got.returncode, got.stdout, got.stderr)


@pytest.fixture
def ordinary(slurm, monkeypatch) -> Iterator[OrdinaryScenario]:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, with `setpriv`")
    folder = Path(tempfile.mkdtemp(prefix="lt-"))  # pytest's own is closed to other users
    try:
        for name in ("HOME", "LAUNCHER_HOME", "XDG_RUNTIME_DIR"):
            path = folder / name[:1].lower()
            path.mkdir()
            os.chown(path, pwd.getpwnam(USER).pw_uid, -1)
            monkeypatch.setenv(name, str(path))
        for name in ("STATE", "CONFIG", "CACHE", "DATA"):
            monkeypatch.delenv(f"XDG_{name}_HOME")
        folder.chmod(0o755)
        with OrdinaryScenario(folder, folder / "l", slurm) as words:
            yield words
            left = slurm.clear(below=str(folder))
            assert left == []
            assert processes.of_home(str(folder / "l")) == []
    finally:
        shutil.rmtree(folder)


def test_a_job_of_an_ordinary_user_runs_as_that_user_and_gc_removes_all_of_it(ordinary):
    uid = pwd.getpwnam(USER).pw_uid
    file = ordinary.job("id -u; pwd; echo >left", replicas=2)
    ordinary.run_to_end(file)
    assert ordinary.state("job") is AppState.SUCCEEDED
    [app] = ordinary.apps()
    assert ordinary.logs("job", "--no-prefix").splitlines().count(str(uid)) == 2
    for folder in (ordinary.home, ordinary.job_dir):
        assert {path.lstat().st_uid for path in folder.rglob("*")} == {uid}
    assert ordinary.actions(file) == {"job": "keep"}
    ordinary.launcher("gc", "--older-than", "0")
    assert ordinary.actions(file) == {"job": "keep"}
    ordinary.launcher("gc", "--older-than", "0", "--tombstones")
    assert ordinary.apps() == []
    assert ordinary.processes_of(app) == []


def test_an_ordinary_user_cancels_a_waiting_app_and_a_running_app(ordinary):
    waits = ordinary.job("true", name="waits", top="cfg: {sbatch: {begin: now+1hour}}")
    ordinary.apply(waits)
    gate = ordinary.gate()
    for pipe in (gate.enter, gate.leave):
        pipe.chmod(0o666)
    ordinary.apply(ordinary.job(gate.script, name="runs"))
    gate.entered()
    [running] = [app for app in ordinary.apps() if app.startswith("runs-")]
    replicas = ordinary.processes_of(running)
    for name in ("waits", "runs"):
        ordinary.cancel(name)
        assert ordinary.state(name) is AppState.CANCELLED
    assert replicas
    assert processes.gone(replicas, timeout_s=60)
