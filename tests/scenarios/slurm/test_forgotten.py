"""Controllers that have lost a job, its release or all that they knew; holds and cancellations by hand."""

import os
import shutil
import subprocess
import time

import pytest

from launcher.schedulers.slurm.site.agent.ends import LATE_S
from launcher.specs import AppState
from tests.scenarios.slurm.test_faults import app_of, conductor_of, until_forgotten
from tests.scenarios.test_kill import killed
from tests.waiting import until

WHY_HELD = "waits in Slurm's queue: JobHeldUser; `scontrol release {job}` lets it start"
LEFT_UNSTARTED = (
    "it left Slurm's queue without an outcome before it started: it was cancelled in Slurm, or the controller"
    " lost it"
)


def killed_before_release(scenario, file):
    """Submit in a client that dies before it has released the job; return the id of the job."""
    assert killed(scenario, "step", "starting", "1", argv=["apply", file, "--yes"])
    [job] = scenario.queue()
    assert field(scenario, job.id, "JobState") == "PENDING"
    return job.id


def field(scenario, job, name):
    words = scenario.cluster.run("scontrol", "show", "job", "-o", job).split()
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


def drain(scenario):
    scenario.cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")


def resume(scenario):
    # A controller that was restarted may have forgotten why it was drained.
    scenario.cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME", check=False)


def accounted(scenario, line):
    """Wait until accounting has a job, such as "7|name|FAILED"."""
    until(lambda: line in scenario.cluster.run("sacct", "-nPXD", "-o", "JobID,JobName,State"))


def foreign(scenario, folder, *, number, hold=True, script="sleep 1000"):
    """Submit jobs that are not ours until one has the id `number`."""
    hold = ["--hold"] if hold else []
    argv = ["sbatch", "--parsable", *hold, "-o", "/dev/null", "--job-name=other", "--wrap", script]
    while True:
        made = subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        if int(made) >= int(number):
            assert made == number
            return made


def test_a_held_job_that_the_controller_lost_is_submitted_again_and_no_other_is_released(broken, tmp_path):
    scenario = broken("--nodes", "1")
    log = scenario.folder / "runs"
    file = scenario.job(f"echo run >>{log}")
    job = killed_before_release(scenario, file)
    scenario.cluster.forget()
    other = foreign(scenario, tmp_path, number=job)
    scenario.run_to_end(file)
    assert log.read_text() == "run\n"
    assert field(scenario, other, "Reason") == "JobHeldUser"


@pytest.mark.parametrize("by", ["apply", "wait"])
def test_a_release_that_the_controller_lost_is_made_again(broken, tmp_path, by):
    """The controller was killed right after the release, and returns with the state that it saved before."""
    scenario = broken("--nodes", "1")
    log = scenario.folder / "runs"
    file = scenario.job(f"echo run >>{log}")
    drain(scenario)
    job = killed_before_release(scenario, file)
    with scenario.cluster.stopped() as memory:
        shutil.copytree(memory, tmp_path / "before")
    scenario.apply(file)
    assert scenario.state("job") is AppState.PENDING
    time.sleep(1)  # times of Slurm count in seconds
    scenario.cluster.kill("slurmctld")
    shutil.rmtree(scenario.cluster.memory)
    shutil.copytree(tmp_path / "before", scenario.cluster.memory)
    scenario.cluster.start("slurmctld")
    assert field(scenario, job, "Reason") == "JobHeldUser"
    assert scenario.actions(file) == {"job": "keep"}
    assert field(scenario, job, "Reason") == "JobHeldUser"  # a plan changes nothing
    resume(scenario)
    if by == "apply":
        scenario.apply(file)
        scenario.cluster.clear()
    else:
        scenario.wait("job")
    assert scenario.state("job") is AppState.SUCCEEDED
    assert log.read_text() == "run\n"


def test_a_hold_of_the_user_survives_the_controller_and_its_message_names_the_release(broken):
    scenario = broken("--nodes", "1")
    file = scenario.job("true")
    drain(scenario)
    scenario.apply(file)
    [job] = scenario.queue()
    until(lambda: field(scenario, job.id, "AccrueTime") != "Unknown")
    time.sleep(1)
    scenario.cluster.run("scontrol", "uhold", job.id)
    resume(scenario)
    why = WHY_HELD.format(job=job.id)
    for restart in (False, True):
        if restart:
            with scenario.cluster.stopped():
                pass
        scenario.apply(file)
        scenario.launcher("wait", "job", "--timeout", "3", code=None)
        assert field(scenario, job.id, "Reason") == "JobHeldUser"
        assert scenario.status("job")["message"] == why
    scenario.cluster.run("scontrol", "release", job.id)
    scenario.wait("job")


def test_an_app_names_the_job_folder_that_its_node_does_not_see(broken):
    scenario = broken("--nodes", "1")
    scenario.job_dir.mkdir(parents=True)
    scenario.cluster.hide(scenario.job_dir)
    scenario.run_to_end(scenario.job("true"), code=5)
    path = scenario.job_dir / "apps" / app_of(scenario) / "slurm.out"
    why = f"the node cannot open {path}: is its disk full, or is it not shared?"
    assert scenario.status("job")["message"] == why


def test_a_pending_job_that_slurm_forgot_is_lost(broken):
    scenario = broken("--nodes", "1", "--set", "MinJobAge=2")
    drain(scenario)
    file = scenario.job("true")
    scenario.apply(file)
    [job] = scenario.queue()
    scenario.cluster.run("scancel", job.id)
    until_forgotten(scenario.cluster, job.id)
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    assert (attempt.state, attempt.message) == ("lost", LEFT_UNSTARTED)


def test_a_foreign_job_with_the_id_of_an_app_is_neither_observed_nor_cancelled(broken, tmp_path):
    """The controller lost its state, and counts anew."""
    scenario = broken("--nodes", "1")
    drain(scenario)
    scenario.apply(scenario.job("true"))
    [job] = scenario.queue()
    scenario.cluster.forget()
    other = foreign(scenario, tmp_path, number=job.id)
    scenario.launcher("cancel", "job", code=None)
    assert field(scenario, other, "JobState") == "PENDING"
    drain(scenario)
    scenario.apply(scenario.job("true", name="next"))
    next_job = next(each for each in scenario.queue() if each.name.startswith("next"))
    scenario.cluster.forget()
    foreign(scenario, tmp_path, number=next_job.id)
    scenario.wait("next", code=None)
    [attempt] = scenario.attempts("next")
    assert (attempt.state, attempt.message) == ("lost", LEFT_UNSTARTED)


@pytest.mark.parametrize("accounting", [False, True])
def test_the_end_of_a_foreign_job_with_the_id_of_an_app_is_not_the_end_of_the_app(
    broken, tmp_path, accounting
):
    scenario = broken("--nodes", "1", *(["--accounting"] if accounting else []))
    scenario.running("sleep 1000")
    app_id = app_of(scenario)
    job = scenario.job_of(app_id)
    os.kill(conductor_of(scenario.cluster, job), 9)
    scenario.cluster.clear()
    if accounting:
        accounted(scenario, f"{job}|{app_id}|FAILED")
    scenario.cluster.forget()
    foreign(scenario, tmp_path, number=job, hold=False, script="exit 7")
    until(lambda: scenario.cluster.jobs() == [])
    if accounting:
        accounted(scenario, f"{job}|other|FAILED")
    scenario.wait("job", code=None)
    [attempt] = scenario.attempts()
    printed = "killed by signal 9" if accounting else "it left Slurm's queue without an outcome"
    assert attempt.message == printed


def test_accounting_has_the_use_of_a_replica_whose_wrapper_was_killed(broken):
    scenario = broken("--nodes", "1", "--accounting")
    code = "import time; held = bytearray(50 << 20)\nwhile time.process_time() < 2: pass"
    _, gate = scenario.running(f"exec python3 -c '{code}\ntime.sleep(1000)'")
    gate.open()
    app_id = app_of(scenario)
    job = scenario.job_of(app_id)
    sampled = ["sstat", "-nP", "-o", "MaxRSS", "-j", f"{job}.0"]

    def sampled_kb() -> float:
        text = scenario.cluster.run(*sampled).strip()
        return float(text.rstrip("KMG") or 0) * {"M": 1 << 10, "G": 1 << 20}.get(text[-1:], 1)

    until(lambda: sampled_kb() > 50_000)
    os.kill(conductor_of(scenario.cluster, job), 9)
    scenario.cluster.clear()
    accounted(scenario, f"{job}|{app_id}|FAILED")
    steps = ["sacct", "-nPD", "-o", "JobID,JobName,State"]
    until(lambda: f"{job}.0|main|RUNNING" not in scenario.cluster.run(*steps))
    scenario.wait("job", code=None)
    use = scenario.status("job")["used"]["main"]
    assert use["memory_source"] == "accounting"
    assert 50 << 20 < use["memory_bytes"] < 500 << 20
    assert use["cpu_user_s"] + use["cpu_system_s"] > 0


def test_a_job_does_not_wait_for_a_foreign_job_with_the_id_of_its_need(broken, tmp_path):
    scenario = broken("--nodes", "1")
    drain(scenario)
    first = scenario.job("true", name="prepare")
    scenario.apply(first)
    [job] = scenario.queue()
    scenario.cluster.forget()
    foreign(scenario, tmp_path, number=job.id)
    second = scenario.job("true", name="train", top="needs: [prepare]")
    resume(scenario)
    scenario.launcher("apply", second, "--yes", code=None)
    dependent = [each for each in scenario.queue() if each.name.startswith("train")]
    assert [field(scenario, each.id, "Dependency") for each in dependent] in ([], ["(null)"])


def test_a_job_runs_when_the_controller_forgot_the_end_of_its_need(broken, tmp_path):
    """The controller returns with the state from before the end, and shows the ended job as running."""
    scenario = broken("--nodes", "1", "--set", "MessageTimeout=2")
    log, gate, state = scenario.folder / "runs", scenario.gate(), scenario.cluster.memory
    scenario.job(gate.script, name="first")
    scenario.job(f"echo last >>{log}", name="last", top="needs: [first]")
    scenario.apply(".")
    gate.entered()
    with scenario.cluster.stopped():
        shutil.copytree(state, tmp_path / "saved")
    drain(scenario)
    first = scenario.attempts("first")[-1].app_id
    job = next(each.id for each in scenario.queue() if each.name == first)
    gate.open()
    scenario.wait("first")
    until(lambda: field(scenario, job, "JobState") == "COMPLETED")
    scenario.cluster.kill("slurmctld")
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "saved", state)
    scenario.cluster.start("slurmctld")
    assert field(scenario, job, "JobState") == "RUNNING"
    ended_at = time.time() - LATE_S
    os.utime(scenario.job_dir / "apps" / first / "outcome", (ended_at, ended_at))
    scenario.apply(".")
    until(lambda: scenario.state("last") is AppState.SUCCEEDED)
    assert (scenario.attempts("last")[-1].state, log.read_text()) == ("succeeded", "last\n")
