"""The arrays for apps that wait for other jobs, and the number that each app has in its array."""

import pytest

from launcher.schedulers.slurm.site.agent.arrays import arrays_of
from launcher.schedulers.slurm.site.agent.slurm import Slurm

KILL = "--kill-on-invalid-dep=yes"


def made(*behind, aftercorr=10):
    """Return for each array the jobs that it waits for, and its tasks with their apps."""
    found = arrays_of([jobs if jobs is None else jobs.split() for jobs in behind], aftercorr)
    assert {tuple(options[1:]) for options, _ in found if options} <= {(KILL,)}
    return [(options[0].partition("=")[2] if options else "", tasks) for options, tasks in found]


def test_apps_that_wait_for_nothing_are_one_array():
    assert made("", "", "") == [("", {0: 0, 1: 1, 2: 2})]


def test_apps_that_wait_for_the_same_jobs_are_one_array_behind_them():
    assert made("7 8_2", "8_2 7") == [("afterok:7:8_2", {0: 0, 1: 1})]


def test_apps_that_each_wait_for_a_task_have_the_number_of_that_task():
    assert made("7_3", "7_0", "7_5") == [("aftercorr:7", {0: 1, 3: 0, 5: 2})]


def test_apps_that_each_wait_for_a_task_may_all_wait_for_further_jobs():
    assert made("4 7_0", "4 7_1") == [("afterok:4,aftercorr:7", {0: 0, 1: 1})]


def test_an_array_behind_another_array_has_as_many_tasks_as_slurm_compares():
    behind = [f"7_{k}" for k in range(5)]
    assert made(*behind, aftercorr=2) == [
        ("aftercorr:7", {0: 0, 1: 1}),
        ("aftercorr:7", {2: 2, 3: 3}),
        ("aftercorr:7", {4: 4}),
    ]


def test_apps_behind_several_arrays_have_different_numbers():
    found = made("7_0", "8_0", "7_1", "8_1")
    assert found[0] == ("aftercorr:7", {0: 0, 1: 2})
    numbers = [k for _, tasks in found for k in tasks]
    assert sorted(numbers) == sorted(set(numbers))
    assert sorted(n for _, tasks in found for n in tasks.values()) == [0, 1, 2, 3]
    assert [dependency for dependency, _ in found[1:]] == ["afterok:8_0", "afterok:8_1"]


def test_several_apps_behind_one_task_are_an_array_of_their_own():
    assert made("7_0", "7_0", "7_1", "7_1") == [
        ("afterok:7_0", {0: 0, 1: 1}),
        ("afterok:7_1", {2: 2, 3: 3}),
    ]


def test_an_app_whose_need_has_succeeded_by_now_waits_for_nothing():
    assert made("7_0", "", "7_2") == [("aftercorr:7", {0: 0, 2: 2}), ("", {1: 1})]


def test_an_app_without_a_task_has_no_number():
    assert made("7_0", None, "7_2") == [("aftercorr:7", {0: 0, 2: 2})]
    assert made(None, None) == []


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ("(null)", 10),
        ("bf_interval=1,correspond_after_task_cnt=500,defer", 500),
        ("correspond_after_task_cnt=0", 10),
    ],
)
def test_a_cluster_says_how_many_tasks_it_compares(monkeypatch, parameters, count):
    monkeypatch.setattr(Slurm, "read", lambda self, argv: f"SchedulerParameters     = {parameters}\n")
    assert Slurm().hello()["aftercorr"] == count
