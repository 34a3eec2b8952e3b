"""The controller or a node fails, or forgets a job, below an app. Each test has its own cluster."""

import json

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenarios.test_kill import killed
from tests.waiting import until


def app_of(scenario) -> str:
    (app_id,) = scenario.apps()
    return app_id


def conductor_of(cluster, job: str) -> int:
    """Return the pid of the first process of a job's batch script, which conducts the app."""
    (line,) = [
        line.split()
        for line in cluster.run("scontrol", "listpids", job).splitlines()
        if line.split()[2] == "batch"
    ][:1]
    return int(line[0])


def stepd_of(cluster, job: str, step: str) -> int:
    """Return the pid of the slurmstepd of a job's step."""
    lines = [line.split() for line in cluster.run("scontrol", "listpids", job).splitlines()]
    parents = {processes.parent(int(line[0])) for line in lines if line[2] == step}
    [pid] = [pid for pid in parents if "slurmstepd: [" in processes.describe(pid)]
    return pid


def until_forgotten(cluster, job: str) -> None:
    """Wait until the controller knows nothing of a job."""
    until(lambda: f"JobId={job} " not in cluster.run("scontrol", "show", "job", "-o"))


def test_a_controller_that_is_restarted_while_a_job_runs_changes_nothing(broken):
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    runs, gates = scenario.folder / "runs", [scenario.gate("gate0"), scenario.gate("gate1")]
    script = gates[0].script.replace("gate0", "gate$<replica_id>")
    file = scenario.job(f"echo $<replica_id> >>{runs}; {script}; echo done", replicas=2)
    scenario.apply(file)
    for gate in gates:
        gate.entered()
    scenario.cluster.stop_controller()
    assert scenario.launcher("plan", file, code=None).code not in (0, 2)
    assert scenario.state("job") is AppState.RUNNING  # as its files say
    (listed,) = json.loads(scenario.launcher("list", "--json").out)
    shown = json.loads(scenario.launcher("status", "job", "--json").out)
    assert [each["message"].partition(":")[0] for each in (listed, shown)] == ["last known state"] * 2
    scenario.cluster.start("slurmctld")
    assert scenario.state("job") is AppState.RUNNING
    assert json.loads(scenario.launcher("status", "job", "--json").out)["message"] == ""
    assert scenario.actions(file) == {"job": "keep"}
    for gate in gates:
        gate.open()
    scenario.wait("job")
    assert sorted(runs.read_text().split()) == ["0", "1"]
    assert scenario.logs("job").count("done") == 2
    assert scenario.actions(file) == {"job": "keep"}


def test_an_app_that_starts_while_the_controller_is_away_runs_when_it_is_back(broken):
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    runs, gate = scenario.folder / "runs", scenario.gate()
    file = scenario.job(f"echo run >>{runs}", top=f"cfg: {{setup: [{json.dumps(gate.script)}]}}")
    scenario.apply(file)
    gate.entered()
    scenario.cluster.stop_controller()
    gate.open()
    output = scenario.job_dir / "apps" / app_of(scenario) / "slurm.out"
    until(lambda: "Unable to confirm allocation" in output.read_text())
    scenario.cluster.start("slurmctld")
    scenario.wait("job")
    [attempt] = scenario.attempts()
    assert (attempt.state, runs.read_text()) == ("succeeded", "run\n")


def test_no_replica_runs_twice_when_the_controller_is_killed_right_after_a_start(broken):
    """The controller returns without knowing that the job runs, ends it, and queues it again, held or not."""
    scenario = broken("--nodes", "1")
    scenario.patch_program("conduct", "LOOK_S = 30.0", "LOOK_S = 2.0")
    runs, gate = scenario.folder / "runs", scenario.gate()
    file = scenario.job(f"echo $<replica_id> >>{runs}; {gate.script}; sleep 1000")
    scenario.apply(file)
    gate.entered()
    replicas = scenario.processes_of(app_of(scenario))
    scenario.cluster.kill("slurmctld")
    scenario.cluster.start("slurmctld")
    if scenario.queue()[0].state == "RUNNING":
        scenario.cancel("job")  # it had written that down before
    else:
        scenario.wait("job", code=None)
        (attempt,) = scenario.attempts()
        assert attempt.state == "lost"
        assert scenario.cluster.clear() == []
    assert processes.gone(replicas, timeout_s=60)
    assert runs.read_text().split() == ["0"]


LATER = "cfg: {sbatch: {begin: now+1hour}}"


def cancel_without_controller(scenario) -> None:
    with scenario.cluster.stopped():
        assert "slurm controller" in scenario.launcher("cancel", "job", code=None).err
    assert [job.name for job in scenario.queue()] == scenario.apps()


@pytest.mark.parametrize("command", ["apply other.launcher.yaml --yes", "list", "cancel job"])
def test_the_next_command_removes_the_job_of_an_app_that_was_cancelled_without_a_controller(broken, command):
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    scenario.apply(scenario.job("true", top=LATER))
    scenario.job("true", name="other", top=LATER)
    cancel_without_controller(scenario)
    scenario.launcher(*command.split())
    assert scenario.state("job") is AppState.CANCELLED
    assert [job for job in scenario.queue() if job.name.startswith("job-")] == []


@pytest.mark.parametrize("command", ["cancel", "apply"])
def test_a_removal_that_was_cut_off_by_the_controller_is_completed_by_the_next_command(broken, command):
    """The app was left behind by a client that was killed before it had released the job."""
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    file = scenario.job("true", top=LATER)
    assert killed(scenario, "step", "starting", "1", argv=["apply", file, "--yes"])
    [held] = scenario.queue()
    cancel_without_controller(scenario)
    assert [app["name"] for app in json.loads(scenario.launcher("list", "--json").out)] == ["job"]
    if command == "cancel":
        scenario.cancel("job")
    else:
        scenario.apply(file)
    assert held.id not in [job.id for job in scenario.queue()]
    assert [job.name for job in scenario.queue()] == (scenario.apps() if command == "apply" else [])


def test_an_app_that_ends_while_no_controller_runs_has_succeeded(broken):
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    _, gate = scenario.running("echo done")
    replicas = scenario.processes_of(app_of(scenario))
    scenario.cluster.kill("slurmctld")
    gate.open()
    assert processes.gone(replicas, timeout_s=60)
    scenario.cluster.start("slurmctld")
    scenario.wait("job")
    assert scenario.state("job") is AppState.SUCCEEDED
    assert "done" in scenario.logs("job")


def test_an_apply_without_a_controller_is_refused_with_the_reason_and_leaves_no_app(broken):
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=1")
    file = scenario.job("true")
    scenario.cluster.kill("slurmctld")
    refused = scenario.apply(file, code=None)
    assert refused.code not in (0, 2)
    assert "controller" in refused.err
    scenario.cluster.start("slurmctld")
    assert scenario.queue() == []
    scenario.run_to_end(file)
    assert len(scenario.apps()) == 1


def test_an_app_runs_on_without_the_daemon_of_its_node(broken):
    scenario = broken("--nodes", "1")
    _, gate = scenario.running("echo done")
    scenario.cluster.kill("n1")
    gate.open()
    scenario.wait("job")
    assert scenario.state("job") is AppState.SUCCEEDED
    assert "done" in scenario.logs("job")
    scenario.cluster.start("n1")


def test_the_status_of_a_suspended_app_names_the_command_that_resumes_it(scenario):
    gate = scenario.gate()
    file = scenario.job(gate.script)
    scenario.apply(file)
    gate.entered()
    job = scenario.job_of(app_of(scenario))
    scenario.cluster.run("scontrol", "suspend", job)
    why = f"suspended in Slurm; `scontrol resume {job}` lets it go on"
    assert (scenario.state("job"), scenario.status("job")["message"]) == (AppState.RUNNING, why)
    assert scenario.actions(file) == {"job": "keep"}
    scenario.cluster.run("scontrol", "resume", job)
    assert scenario.status("job")["message"] == ""
    events = scenario.job_dir / "apps" / app_of(scenario) / "events"
    until(lambda: b'"clock"' in events.read_bytes())  # its time limit does not count that
    gate.open()
    scenario.wait("job")


def test_an_app_fails_with_its_node_and_names_the_node(broken):
    scenario = broken("--nodes", "1")
    scenario.running("sleep 1000")
    replicas = scenario.processes_of(app_of(scenario))
    scenario.cluster.kill("n1")
    scenario.cluster.run("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
    scenario.wait("job", code=None)
    assert scenario.state("job") is AppState.FAILED
    assert scenario.status("job")["message"] == "node n1 failed"
    scenario.cluster.start("n1")
    assert processes.gone(replicas, timeout_s=60)
    assert scenario.state("job") is AppState.FAILED


@pytest.mark.slow
def test_an_app_whose_slurmstepd_is_killed_has_failed(broken):
    """The srun of the app waits for ever."""
    scenario = broken("--nodes", "1")
    scenario.patch_program("steps", "LOOK_AT_RECORDS_S = 30.0", "LOOK_AT_RECORDS_S = 2.0")
    scenario.running("sleep 1000")
    app_id = app_of(scenario)
    replicas = scenario.processes_of(app_id)
    processes.kill([stepd_of(scenario.cluster, scenario.job_of(app_id), "0")])
    assert processes.gone(replicas, timeout_s=60)
    scenario.wait("job", code=5)
    assert scenario.status("job")["message"] == "main/0 was lost: its step was killed"
    assert scenario.cluster.clear() == []


@pytest.mark.slow
def test_an_app_runs_on_without_the_slurmstepd_of_its_batch_script_and_ends_its_job(broken):
    scenario = broken("--nodes", "1")
    _, gate = scenario.running("echo done")
    stepd = stepd_of(scenario.cluster, scenario.job_of(app_of(scenario)), "batch")
    processes.kill([stepd])
    assert processes.gone([stepd], timeout_s=60)
    gate.open()
    scenario.wait("job")
    assert scenario.state("job") is AppState.SUCCEEDED
    assert "done" in scenario.logs("job")
    assert scenario.cluster.clear() == []


def test_an_app_waits_with_the_reason_while_its_only_node_is_drained(broken):
    scenario = broken("--nodes", "1")
    scenario.cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
    file = scenario.job("echo done")
    scenario.apply(file)
    until(lambda: "drained" in scenario.status("job")["message"].lower())
    assert scenario.state("job") is AppState.PENDING
    assert scenario.actions(file) == {"job": "keep"}
    scenario.cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    scenario.wait("job")
    assert "done" in scenario.logs("job")


def test_the_outcome_of_an_app_is_known_after_slurm_forgot_its_job(broken):
    scenario = broken("--nodes", "1", "--set", "MinJobAge=2")
    good, bad = scenario.job("echo done", name="good"), scenario.job("exit 3", name="bad")
    scenario.run_to_end(good)
    scenario.run_to_end(bad, code=5)
    until(lambda: "JobId=" not in scenario.cluster.run("scontrol", "show", "job", "-o"))
    assert scenario.state("good") is AppState.SUCCEEDED
    assert scenario.state("bad") is AppState.FAILED
    assert scenario.status("bad")["exit_code"] == 3
    assert "done" in scenario.logs("good")
    assert scenario.actions(good) == {"good": "keep"}
