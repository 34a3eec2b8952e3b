"""The clusters of the tests: they leave nothing behind, and a test that leaves a job fails."""

import os
from pathlib import Path

import pytest

from tests import processes
from tests.engines import slurm as engine
from tests.unit.test_harness import run_tests

LEAVES_A_JOB = """
import subprocess
from tests.engines import slurm as engine
engine.EMPTY_S = 1.0
def test_it(slurm, tmp_path):
    subprocess.run(["sbatch", "--wrap", "sleep 600"], cwd=tmp_path, check=True)
"""
LEAVES_ONE_THERE = """
import subprocess
from pathlib import Path
from tests.engines import slurm as engine
engine.EMPTY_S = 1.0
def test_it(slurm_ssh):
    Path(__file__).with_name("user").write_text(slurm_ssh.user)
    command = "sbatch --wrap 'sleep 600'; setsid sleep 599 >/dev/null 2>&1 &"
    subprocess.run(["ssh", "login1", command], check=True)
"""


@pytest.mark.slow
def test_a_job_that_a_test_leaves_fails_it_and_ends(tmp_path, own_slurm):
    cluster = own_slurm()
    code, out = run_tests(tmp_path, LEAVES_A_JOB, **{engine.HERE: str(cluster.folder)})
    assert code == 1
    assert "the test left behind in the queue: job 1 wrap (RUNNING)" in out
    assert cluster.jobs() == []


@pytest.mark.slow
def test_a_job_that_a_test_leaves_behind_ssh_fails_it_and_all_of_its_user_goes(tmp_path, slurm_ssh):
    code, out = run_tests(tmp_path, LEAVES_ONE_THERE, **{engine.THERE: str(slurm_ssh.folder)})
    assert code == 1
    assert "the test left behind in the queue: job" in out
    name = (tmp_path / "user").read_text()
    users = (slurm_ssh.folder / "etc" / "passwd").read_text().splitlines()
    [uid] = [line.split(":")[2] for line in users if line.startswith(f"{name}:")]
    assert slurm_ssh.jobs(user=name) == []
    assert processes.of_user(int(uid)) == []
    assert not (slurm_ssh.folder / "home" / name).exists()


def test_nothing_is_left_of_a_cluster_whose_daemons_were_killed(own_slurm):
    cluster = own_slurm()
    script = 'trap "" TERM; echo $$ >"$0"; while :; do sleep 9; done'
    pipe = cluster.folder / "pid"
    os.mkfifo(pipe)
    cluster.run("sbatch", "--output=/dev/null", "--wrap", f"env -i setsid sh -c '{script}' {pipe}")
    replica = int(pipe.read_text())
    cluster.kill("n1")
    cluster.kill("slurmctld")
    daemons = [int(file.read_text()) for file in cluster.folder.glob("*.pid")]
    assert len(daemons) == 5
    cluster.down()
    assert not cluster.folder.exists()
    assert str(cluster.folder) not in Path("/proc/self/mounts").read_text()
    assert processes.gone([replica, *daemons], timeout_s=60)
