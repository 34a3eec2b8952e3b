"""Plan and apply on a cluster: jobs that run, are kept, and are seen from other state folders."""

import json
import os

import pytest

from launcher.specs import AppState
from tests.lanes import sampled
from tests.scenarios.test_apply import (  # noqa: F401
    test_a_failed_job_is_held_until_a_user_asks,
    test_a_second_apply_keeps_the_finished_job_and_reports_it_unchanged,
)
from tests.scenarios.test_kill import assert_as_if_never_killed, killed, runs  # noqa: F401

STEPS = ["reserving", "reserved", "created", "starting", "attempt_queued", "recorded"]
LATER = "cfg: {sbatch: {begin: now+1hour}}"
"""Lines of a job that Slurm does not start while a test runs."""


def test_the_state_folder_may_be_the_parent_of_the_job_folder(scenario, monkeypatch):
    home = scenario.job_dir.parent
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    file = scenario.job("true")
    scenario.launcher("apply", file, "--yes", "--wait")
    assert scenario.actions(file) == {"job": "keep"}
    assert [app["state"] for app in json.loads(scenario.launcher("list", "--json").out)] == ["SUCCEEDED"]
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.actions(file) == {"job": "keep"}
    assert len(scenario.apps()) == 1


def test_another_state_folder_sees_the_ended_job_and_its_logs(scenario, tmp_path, monkeypatch):
    file = scenario.job("echo once")
    scenario.run_to_end(file)
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    assert scenario.actions(file) == {"job": "keep"}
    assert scenario.logs(f"slurm://default/{scenario.apps()[0]}") == "once\n"


def test_another_state_folder_has_a_running_job_of_a_job_folder_that_it_never_used(
    scenario, tmp_path, monkeypatch
):
    scenario.job_dir = tmp_path / "elsewhere"
    file, _ = scenario.running(top=f"cfg: {{job_dir: {scenario.job_dir}}}")
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    scenario.apply(file)  # nothing to do, but it is on record from here on
    [listed] = json.loads(scenario.launcher("list", "--json").out)
    assert listed["state"] == "RUNNING"
    assert scenario.state("job") is AppState.RUNNING
    assert scenario.logs("job") == ""
    scenario.cancel("job")
    assert scenario.left_in_queue() == []
    assert scenario.state("job") is AppState.CANCELLED


def test_a_queued_job_shows_the_reason_of_slurm_and_is_withdrawn_by_a_change(scenario):
    file = scenario.job("true", top=LATER)
    scenario.apply(file)
    [first] = scenario.queue()
    assert first.state == "PENDING"
    listed = scenario.launcher("list").out
    assert "QUEUED" in listed
    assert "waits in Slurm's queue" in listed
    assert scenario.state("job") is AppState.PENDING
    assert scenario.actions(file) == {"job": "keep"}
    file = scenario.job("echo new")
    scenario.run_to_end(file)
    assert [attempt.state for attempt in scenario.attempts()] == ["skipped", "succeeded"]
    assert scenario.left_in_queue() == []


def test_an_app_that_an_operator_cancels_is_cancelled(scenario):
    scenario.running()
    [job] = scenario.queue()
    scenario.cluster.cancel([job])
    scenario.wait("job", code=5)
    assert scenario.state("job") is AppState.CANCELLED
    assert scenario.processes_of(job.name) == []


def test_a_job_that_slurm_refuses_leaves_no_app(scenario):
    file = scenario.job("true", top="cfg: {partition: nosuch}")
    got = scenario.apply(file, code=1)
    assert "invalid partition" in got.err
    assert (scenario.apps(), scenario.left_in_queue()) == ([], [])
    assert scenario.actions(file) == {"job": "create"}


@pytest.mark.parametrize("top", ["", "matrix: {n: [0, 1]}"], ids=["one", "an array"])
def test_a_job_folder_that_cannot_be_written_leaves_no_app(scenario, top):
    scenario.job_dir.mkdir(parents=True)
    (scenario.job_dir / "apps").symlink_to("nowhere")  # which also keeps root from writing
    file = scenario.job("true", top=top)
    got = scenario.apply(file, code=1)
    assert "apps" in got.err
    assert json.loads(scenario.launcher("list", "--json").out) == []
    (scenario.job_dir / "apps").unlink()
    scenario.run_to_end(file)


@pytest.mark.parametrize("count", [8])
def test_racing_applies_from_two_state_folders_run_one_job(scenario, tmp_path, count):
    log = scenario.folder / "runs"
    file = scenario.job(f"echo run >>{log}; sleep 1")
    clients = [
        scenario.start(
            "apply", file, "--yes", "--wait", env={**os.environ, "LAUNCHER_HOME": str(tmp_path / f"h{k % 2}")}
        )
        for k in range(count)
    ]
    ends = [(client.communicate(), client.returncode) for client in clients]
    assert {code for _, code in ends} <= {0, 1, 4}, ends
    assert [code for _, code in ends].count(0), ends
    scenario.run_to_end(file)
    assert log.read_text() == "run\n"
    assert len(scenario.apps()) == 1
    assert scenario.cluster.clear(below=str(scenario.job_dir)) == []
    jobs = scenario.cluster.jobs(below=str(scenario.job_dir), ended=True)
    assert [job.state for job in jobs if job.state != "CANCELLED"] == ["COMPLETED"]


@pytest.mark.parametrize("step", sampled(STEPS, "created", "starting", every=2))
def test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_named_step(scenario, runs, step):  # noqa: F811
    file, log = runs
    assert killed(scenario, "step", step, "1", argv=["apply", file, "--yes"])
    assert_as_if_never_killed(scenario, file, log)
    assert scenario.left_in_queue() == []


def test_a_run_gets_its_own_copy_of_the_workspace_without_ignored_files(scenario):
    scenario.write(".launcherignore", "*.tmp\n")
    scenario.write("data.txt", "one\n")
    scenario.write("left.tmp", "x\n")
    file = scenario.job("cat data.txt; ls; echo edited >data.txt", top="workspace: .")
    scenario.run_to_end(file)
    message = scenario.logs("job").splitlines()
    assert message[0] == "one"
    assert "left.tmp" not in message
    scenario.launcher("apply", file, "--yes", "--wait", "--rerun", "job")
    assert scenario.logs("job").splitlines()[0] == "one"
    assert (scenario.folder / "data.txt").read_text() == "one\n"
    scenario.write("data.txt", "two\n")
    assert scenario.actions(file) == {"job": "create"}


def test_run_takes_a_workspace_and_leaves_no_archive_behind(scenario):
    scenario.write("data.txt", "one\n")
    argv = ["run", "-s", "slurm", "--workspace", ".", "utils.sh", "--image", "", "cat", "data.txt"]
    scenario.launcher(*argv)
    [app] = scenario.apps()
    assert scenario.logs(app) == "one\n"


def test_gc_keeps_the_outcome_of_a_job_and_causes_no_rerun(scenario, tmp_path, monkeypatch):
    file = scenario.job("true")
    scenario.run_to_end(file)
    scenario.launcher("gc", "--older-than", "0")
    assert scenario.actions(file) == {"job": "keep"}
    [app] = scenario.apps()
    assert "were removed" in scenario.launcher("logs", "job", code=1).err
    assert sorted(os.listdir(scenario.job_dir / "apps" / app)) == ["attempt.json", "id", "outcome"]
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    assert scenario.actions(file) == {"job": "keep"}
    assert "job" not in scenario.launcher("list", "-s", "slurm").out


def test_a_secret_reaches_the_replica_and_no_file_that_stays(scenario, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-value")
    file = scenario.job("test ${#TOKEN} = 12", role="env: {TOKEN: {secret: env:MY_TOKEN}}")
    scenario.run_to_end(file)
    for folder in (scenario.job_dir, scenario.home):
        for path in folder.rglob("*"):
            assert not path.is_file() or b"s3cr3t-value" not in path.read_bytes(), path


def test_replicas_run_on_nodes_with_their_kind_of_gpu(scenario):
    """Slurm gives a job without a kind the first node, which has GPUs of another kind."""
    resource = "resource: {gpu: 2, gpu_type: a100}"
    file = scenario.job('echo "on $SLURMD_NODENAME with $CUDA_VISIBLE_DEVICES."', role=resource)
    scenario.run_to_end(file)
    assert scenario.logs("job") in {f"on {node} with 0,1.\n" for node in ("n2", "n3")}
