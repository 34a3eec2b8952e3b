"""The arrays for apps that wait for other jobs, and the number that each app has in its array."""

import pytest

from launcher.schedulers.slurm.site.agent.arrays import arrays_of
from launcher.schedulers.slurm.site.agent.slurm import Slurm

KILL = "--kill-on-invalid-dep=yes"
FIVE = [f"7_{k}" for k in range(5)]


def made(behind, aftercorr):
    """Return for each array the jobs that it waits for, and its tasks with their apps."""
    found = arrays_of([jobs if jobs is None else jobs.split() for jobs in behind], aftercorr)
    assert {tuple(options[1:]) for options, _ in found if options} <= {(KILL,)}
    return [(options[0].partition("=")[2] if options else "", tasks) for options, tasks in found]


ARRAYS = {
    "nothing": (["", "", ""], [("", {0: 0, 1: 1, 2: 2})]),
    "the same jobs": (["7 8_2", "8_2 7"], [("afterok:7:8_2", {0: 0, 1: 1})]),
    "a task each": (["7_3", "7_0", "7_5"], [("aftercorr:7", {0: 1, 3: 0, 5: 2})]),
    "a task each, and all for a further job": (["4 7_0", "4 7_1"], [("afterok:4,aftercorr:7", {0: 0, 1: 1})]),
    "more tasks of an array than Slurm compares": (FIVE,
        [("aftercorr:7", {0: 0, 1: 1}), ("aftercorr:7", {2: 2, 3: 3}), ("aftercorr:7", {4: 4})]),
    "tasks of several arrays": (["7_0", "8_0", "7_1", "8_1"],
        [("aftercorr:7", {0: 0, 1: 2}), ("afterok:8_0", {2: 1}), ("afterok:8_1", {3: 3})]),
    "several apps for one task": (["7_0", "7_0", "7_1", "7_1"],
        [("afterok:7_0", {0: 0, 1: 1}), ("afterok:7_1", {2: 2, 3: 3})]),
    "a need that has succeeded by now": (["7_0", "", "7_2"], [("aftercorr:7", {0: 0, 2: 2}), ("", {1: 1})]),
    "an app without a task": (["7_0", None, "7_2"], [("aftercorr:7", {0: 0, 2: 2})]),
    "no task at all": ([None, None], []),
}  # fmt: skip


@pytest.mark.parametrize("waits", ARRAYS)
def test_apps_are_tasks_of_arrays_by_the_jobs_that_they_wait_for(waits):
    behind, arrays = ARRAYS[waits]
    assert made(behind, aftercorr=2 if behind == FIVE else 10) == arrays


@pytest.mark.parametrize(("parameters", "count"), [
    ("(null)", 10),
    ("bf_interval=1,correspond_after_task_cnt=500,defer", 500),
    ("correspond_after_task_cnt=0", 10),
])  # fmt: skip
def test_a_cluster_says_how_many_tasks_it_compares(monkeypatch, parameters, count):
    monkeypatch.setattr(Slurm, "read", lambda self, argv: f"SchedulerParameters     = {parameters}\n")
    assert Slurm().hello()["aftercorr"] == count
