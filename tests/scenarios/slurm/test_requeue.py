"""The app of a job that Slurm requeues begins anew, and stays the same attempt."""

import time

import pytest

from launcher.specs import AppState
from tests import processes
from tests.waiting import until


@pytest.mark.slow
def test_an_app_whose_job_is_requeued_runs_again_from_its_beginning_with_its_secrets(scenario, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "s3cr3t")
    runs = scenario.folder / "runs"
    script = f"echo $LAUNCHER_RESTART ${{#TOKEN}} | tee -a {runs}; [ $LAUNCHER_RESTART = 1 ] || sleep 1000"
    secret = "env: {TOKEN: {secret: env:MY_TOKEN}}"
    scenario.apply(scenario.job(script, role=secret, top="cfg: {on_preempted: requeue}"))
    until(runs.exists)
    [app_id] = scenario.apps()
    replicas, job = scenario.processes_of(app_id), scenario.job_of(app_id)
    scenario.cluster.run("scontrol", "requeue", job)
    assert processes.gone(replicas, timeout_s=60)
    until(lambda: [each.state for each in scenario.queue()] == ["PENDING"])
    assert scenario.state("job") is AppState.PENDING
    seen = scenario.status("job")
    assert seen["started_at"] is not None
    assert [each["state"] for each in seen["replicas"]] == ["PENDING"]
    logs = scenario.launcher("logs", "job")
    assert logs.out == "0 6\n"
    assert logs.err.startswith("job is queued: Slurm runs it again: ")
    time.sleep(2)  # within a second, Slurm takes the credential of the next run for that of the last one
    scenario.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    scenario.wait("job")
    assert not (scenario.job_dir / "apps" / app_id / "secrets").exists()
    [attempt] = scenario.attempts()
    assert (attempt.state, runs.read_text()) == ("succeeded", "0 6\n1 6\n")


def test_an_app_that_is_cancelled_before_its_second_run_keeps_the_start_of_its_first(scenario):
    scenario.running("sleep 1000", top="cfg: {on_preempted: requeue}")
    [job] = scenario.queue()
    scenario.cluster.run("scontrol", "requeuehold", job.id)
    until(lambda: [each.state for each in scenario.queue()] == ["PENDING"])
    started_at = scenario.status("job")["started_at"]
    scenario.cancel("job")
    seen = scenario.status("job")
    assert (seen["state"], seen["started_at"]) == ("CANCELLED", started_at)
    assert seen["message"].startswith("cancelled by ")


def test_a_job_whose_app_has_ended_is_not_queued_again(scenario):
    scenario.run_to_end(scenario.job("true", top="cfg: {on_preempted: requeue}"))
    [app_id] = scenario.apps()
    job = (scenario.job_dir / "apps" / app_id / "job").read_text()
    assert scenario.left_in_queue() == []
    scenario.cluster.run("scontrol", "requeuehold", job, check=False)
    assert scenario.queue() == []


@pytest.mark.slow
@pytest.mark.parametrize("user_signal", ["", "SlurmctldParameters=preempt_send_user_signal"])
def test_an_app_that_slurm_preempts_runs_again_when_its_node_is_free(broken, user_signal):
    sets = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", user_signal]
    scenario = broken("--nodes", "1", *(word for each in sets if each for word in ("--set", each)))
    scenario.cluster.run("scontrol", "update", "PartitionName=main", "GraceTime=60")
    scenario.cluster.run("scontrol", "create", "PartitionName=high", "Nodes=ALL", "PriorityTier=10")
    gate = scenario.gate()
    file = scenario.job(gate.script, top="cfg: {on_preempted: requeue, time: 9m, sbatch: {exclusive: ''}}")
    scenario.apply(file)
    gate.entered()
    argv = ["-p", "high", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1"]
    scenario.cluster.run("sbatch", *argv)
    gate.entered()
    assert scenario.actions(file) == {"job": "keep"}
    gate.open()
    scenario.wait("job")
    assert [each.state for each in scenario.attempts()] == ["succeeded"]
