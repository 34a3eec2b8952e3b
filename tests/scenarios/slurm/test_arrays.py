"""The jobs of a matrix as one job array of the cluster."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from launcher.specs import AppState
from tests.lanes import thinned
from tests.scenarios.test_kill import killed
from tests.waiting import until

STEPS = ["reserving", "reserved", "creating", "created", "starting", "attempt_queued", "recorded"]
LATER = "cfg: {sbatch: {begin: now+1hour}}"


def matrix_of(scenario, count: int, script: str, top: str = "", role: str = "") -> Path:
    """Return a job for each n below `count`, with N in its environment."""
    top = f"matrix: {{n: [{', '.join(map(str, range(count)))}]}}\n{top}"
    return scenario.job(script, top=top, role=f"env: {{N: $<matrix.n>}}\n{role}")


def tasks(scenario) -> dict[str, str]:
    """Return the state of each task of the arrays of this test in the queue."""
    lines = scenario.cluster.run("squeue", "-h", "-r", "-o", "%i\x1f%T\x1f%Z").splitlines()
    found = (line.split("\x1f") for line in lines)
    return {job: state for job, state, folder in found if folder.startswith(str(scenario.job_dir))}


def arrays(scenario) -> Counter[str]:
    """Return the number of apps that were submitted as tasks of each array; "" stands for single jobs."""
    paths = (scenario.job_dir / "apps").glob("*/submitting")
    return Counter(path.read_text().partition('"array": "')[2].partition('"')[0] for path in paths)


@pytest.mark.slow
def test_thirty_jobs_of_a_matrix_are_one_array_with_a_task_for_each_app(scenario):
    log = scenario.folder / "runs"
    file = matrix_of(scenario, 30, f"echo $N >>{log}; echo I am $N; test $N != 7")
    scenario.launcher("apply", file, "--yes", "--wait", code=5)
    assert sorted(map(int, log.read_text().split())) == list(range(30))
    assert [*arrays(scenario).values()] == [30]
    assert scenario.state("job-8") is AppState.SUCCEEDED
    assert scenario.state("job-7") is AppState.FAILED
    assert scenario.logs("job-8") == "I am 8\n"
    assert Counter(scenario.actions(file).values()) == {"keep": 29, "hold": 1}
    scenario.launcher("apply", file, "--yes", "--wait", "--rerun", "job-7", "--rerun", "job-9", code=5)
    assert Counter(log.read_text().split())["9"] == 2
    assert sorted(arrays(scenario).values()) == [2, 30]
    assert scenario.left_in_queue() == []
    scenario.launcher("gc", "--older-than", "0")
    assert os.listdir(scenario.job_dir / "arrays") == []


@pytest.mark.slow
def test_max_parallel_is_the_limit_of_the_array_and_a_cancel_of_one_task_leaves_the_others(scenario):
    gate = scenario.folder / "open"
    script = f"until [ -e {gate} ]; do sleep 0.1; done; echo done"
    file = matrix_of(scenario, 5, script, top="max_parallel: 2")
    assert "turns: 5 jobs of job: 2 at a time" in scenario.launcher("plan", file, code=None).out
    scenario.apply(file)
    until(lambda: Counter(tasks(scenario).values()) == {"RUNNING": 2, "PENDING": 3})
    time.sleep(1)
    assert Counter(tasks(scenario).values()) == {"RUNNING": 2, "PENDING": 3}
    scenario.cancel("job-1")
    assert scenario.state("job-1") is AppState.CANCELLED
    gate.touch()
    scenario.wait("job", code=5)
    assert [scenario.logs(f"job-{k}") for k in (0, 2, 3, 4)] == ["done\n"] * 4
    assert scenario.left_in_queue() == []


@pytest.mark.slow
def test_tasks_that_their_user_cancels_in_the_queue_are_cancelled_although_slurm_keeps_no_record_of_them(
    scenario,
):
    scenario.apply(matrix_of(scenario, 3, "true", top=LATER))
    array = next(iter(tasks(scenario))).partition("_")[0]
    for word, state in ((f"{array}_1", AppState.PENDING), (array, AppState.CANCELLED)):
        scenario.cluster.run("scancel", word)
        assert scenario.state("job-1") is AppState.CANCELLED
        assert {scenario.state("job-0"), scenario.state("job-2")} == {state}
    assert scenario.status("job-1")["message"] == "cancelled in Slurm"


@pytest.mark.slow
def test_an_apply_reports_why_the_parallel_option_has_no_effect(scenario):
    file = matrix_of(scenario, 2, "true")
    other = scenario.job("true", name="other")
    out = scenario.launcher("apply", file, other, "--parallel", "1", "--yes", "--wait").out
    assert "--parallel has no effect: other is not in one job array with job-0" in out


@pytest.mark.slow
def test_jobs_that_cannot_be_in_the_array_are_submitted_singly_and_the_plan_says_why(scenario):
    file = scenario.job("true", top="matrix: {n: [1, 2, 3]}", role="resource: {cpu: $<matrix.n>}")
    out = scenario.launcher("plan", file, code=None).out
    assert "submitted as a job of its own: it differs from job-2 in cpus-per-task" in out
    scenario.run_to_end(file)
    assert arrays(scenario) == {"": 3}


@pytest.mark.slow
def test_jobs_of_a_matrix_that_wait_for_the_same_job_are_an_array_behind_it(scenario):
    log = scenario.folder / "runs"
    first = scenario.job(f"sleep 1; echo first >>{log}", name="first")
    file = matrix_of(scenario, 3, f"echo $N >>{log}", top="needs: [first]\nmax_parallel: 2")
    out = scenario.launcher("plan", first, file, code=None).out
    assert "a job of its own" not in out
    assert "turns: 3 jobs of job: 2 at a time" in out
    scenario.launcher("apply", first, file, "--yes", "--wait")
    assert log.read_text().split()[0] == "first"
    assert sorted(arrays(scenario).values()) == [1, 3]


def pairs(scenario, count: int, train: str, evaluate: str, top: str = "") -> list[Path]:
    """Write a matrix of trainings, and one of evaluations that each need the training of their number."""
    numbers = f"matrix: {{n: [{', '.join(map(str, range(count)))}]}}\n"
    role = "env: {N: $<matrix.n>}"
    return [
        scenario.job(train, name="train", top=numbers + top, role=role),
        scenario.job(evaluate, name="eval", top=numbers + "needs: [train-$<matrix.n>]", role=role),
    ]


def submissions(scenario, job: str) -> list[str]:
    """Return the Slurm jobs of the arrays that the apps of a matrix are tasks of."""
    paths = (scenario.job_dir / "apps").glob(f"{job}-*/created")
    return sorted({json.loads(path.read_text())["job"].partition("_")[0] for path in paths})


def why(scenario, job: str) -> str:
    """Return the state of the latest attempt of a job, and why it is in this state."""
    found = json.loads(scenario.launcher("status", job, "--json", code=None).out)
    return f"{found['attempt_state']}: {found['message']}"


@pytest.mark.slow
def test_each_job_of_a_matrix_starts_behind_the_job_of_another_one_that_it_needs(scenario):
    """Slurm compares ten tasks of an array with those of another one; the last jobs wait for none of them."""
    log, gate = scenario.folder / "runs", scenario.folder / "open"
    train = f"test $N -gt 9 || until [ -e {gate} ]; do sleep 0.1; done; echo train $N >>{log}; test $N != 3"
    files = pairs(scenario, 12, train, f"echo eval $N >>{log}")
    assert "a job of its own" not in scenario.launcher("plan", *files, code=None).out
    scenario.launcher("apply", *files, "--yes")
    assert [len(submissions(scenario, each)) for each in ("train", "eval")] == [1, 2]
    scenario.launcher("wait", "eval-10", "eval-11")
    assert why(scenario, "eval-0").startswith("waiting")
    gate.touch()
    scenario.wait("eval", code=5)
    ran = log.read_text().splitlines()
    assert sorted(ran) == sorted(
        [f"train {k}" for k in range(12)] + [f"eval {k}" for k in range(12) if k != 3]
    )
    assert all(ran.index(f"train {k}") < ran.index(f"eval {k}") for k in range(12) if k != 3)
    assert why(scenario, "eval-3") == "skipped: train-3 failed"
    assert scenario.left_in_queue() == []


@pytest.mark.slow
def test_a_job_that_waits_for_a_cancelled_task_is_skipped_and_never_runs(scenario):
    """Slurm drops the dependency of a job on a task that is cancelled in the queue."""
    log = scenario.folder / "runs"
    files = pairs(scenario, 3, "true", f"echo $N >>{log}", top=LATER)
    last = scenario.job(f"echo last >>{log}", name="last", top="needs: [train-1]")
    scenario.launcher("apply", *files, last, "--yes")
    scenario.cancel("train-1")
    scenario.launcher("wait", "eval-1", "last", code=None)
    for job in ("eval-1", "last"):
        assert why(scenario, job) == "skipped: train-1 was cancelled"
    assert why(scenario, "eval-0").startswith("waiting")
    scenario.launcher("cancel", "eval", "train", "--yes")
    assert scenario.left_in_queue() == []
    assert not log.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "step"), thinned([(n, step) for step in STEPS for n in "15"], every=3))
def test_the_next_apply_finishes_arrays_behind_others_of_a_client_killed_at_a_named_step(
    scenario, step, number
):
    log = scenario.folder / "runs"
    files = pairs(scenario, 4, f"echo train $N >>{log}", f"echo eval $N >>{log}")
    assert killed(scenario, "step", step, number, argv=["apply", *files, "--yes"])
    scenario.launcher("apply", *files, "--yes", "--wait")
    ran = log.read_text().splitlines()
    assert sorted(ran) == sorted(f"{job} {k}" for job in ("train", "eval") for k in range(4))
    assert all(ran.index(f"train {k}") < ran.index(f"eval {k}") for k in range(4))
    assert set(scenario.actions(*files).values()) == {"keep"}
    assert scenario.left_in_queue() == []
    assert len(scenario.apps()) == 8


@pytest.mark.slow
def test_a_job_may_need_the_tasks_of_an_array(scenario):
    log = scenario.folder / "runs"
    file = matrix_of(scenario, 3, f"sleep 1; echo $N >>{log}")
    last = scenario.job(f"echo last >>{log}", name="last", top="needs: [job]")
    scenario.launcher("apply", file, last, "--yes", "--wait")
    assert log.read_text().split()[-1] == "last"
    assert sorted(arrays(scenario).values()) == [1, 3]


@pytest.mark.slow
def test_each_task_has_a_copy_of_the_workspace_for_itself(scenario):
    scenario.write("data.txt", "one\n")
    file = matrix_of(scenario, 3, "cat data.txt; echo edited >data.txt", top="workspace: .")
    scenario.run_to_end(file)
    assert [scenario.logs(f"job-{k}") for k in range(3)] == ["one\n"] * 3
    assert [*arrays(scenario).values()] == [3]


@pytest.mark.slow
def test_changed_jobs_replace_their_running_tasks(scenario):
    file = matrix_of(scenario, 3, "echo old; sleep 1000")
    scenario.apply(file)
    until(lambda: [*tasks(scenario).values()] == ["RUNNING"] * 3)
    file = matrix_of(scenario, 3, "echo new")
    scenario.launcher("apply", file, "--yes", "--allow-destructive", "--wait")
    assert [scenario.logs(f"job-{k}") for k in range(3)] == ["new\n"] * 3
    assert scenario.left_in_queue() == []


@pytest.mark.slow
def test_a_small_limit_of_array_tasks_makes_several_arrays(broken):
    scenario = broken("--set", "MaxArraySize=4")
    file = matrix_of(scenario, 9, "true", top="max_parallel: 2")
    out = scenario.launcher("plan", file, code=None).out
    assert "`max_parallel` has no effect: 9 jobs are more than one job array has (MaxArraySize is 4)" in out
    scenario.run_to_end(file)
    assert sorted(arrays(scenario).values()) == [1, 4, 4]


@pytest.mark.slow
def test_a_cluster_without_arrays_gets_single_jobs(broken):
    scenario = broken("--set", "MaxArraySize=0")
    file = matrix_of(scenario, 2, "true")
    assert "the cluster has no job arrays" in scenario.launcher("plan", file, code=None).out
    scenario.run_to_end(file)
    assert arrays(scenario) == {"": 2}


@pytest.mark.slow
def test_a_matrix_with_more_jobs_than_the_user_may_submit_is_refused_as_a_whole(broken):
    scenario = broken(
        "--accounting", "--set", "AccountingStorageEnforce=associations,limits", "--set", "MaxArraySize=4"
    )
    user = ["user", "root"]
    scenario.cluster.run("sacctmgr", "-i", "modify", *user, "set", "MaxSubmitJobs=6")
    file = matrix_of(scenario, 9, "true")
    got = scenario.apply(file, code=1)
    assert "MaxSubmitJobs is 6" in got.err
    assert (scenario.apps(), scenario.left_in_queue()) == ([], [])
    assert os.listdir(scenario.job_dir / "arrays") == []


@pytest.mark.slow
def test_a_cluster_of_another_generation_runs_each_task_behind_the_task_that_it_needs(there):
    log = there.folder / "runs"
    train = f"echo train $N >>{log}; sleep 3; test $N != 1"  # ends after the evaluations are submitted
    files = pairs(there, 3, train, f"echo eval $N >>{log}")
    there.launcher("apply", *files, "--yes", "--wait", code=5)
    ran = log.read_text().splitlines()
    assert sorted(ran) == ["eval 0", "eval 2", "train 0", "train 1", "train 2"]
    assert all(ran.index(f"train {k}") < ran.index(f"eval {k}") for k in (0, 2))
    assert [len(submissions(there, each)) for each in ("train", "eval")] == [1, 1]
    assert why(there, "eval-1") == "skipped: train-1 failed"
