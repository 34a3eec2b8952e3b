"""The number of requests to a cluster does not grow with the apps that a command takes."""

import pytest

from launcher.inventory.find import find_apps
from launcher.inventory.status import stop
from launcher.schedulers.slurm.cluster import Cluster

MEMBERS = 12


@pytest.fixture
def calls(monkeypatch):
    """The operations of each request to a cluster."""
    made: list[list[str]] = []
    call = Cluster.call

    def noted(self, *ops):
        made.append([op["op"] for op in ops])
        return call(self, *ops)

    monkeypatch.setattr(Cluster, "call", noted)
    return made


@pytest.mark.slow
def test_one_request_cancels_all_apps_of_a_matrix_and_leaves_no_job(scenario, calls, monkeypatch):
    axes = f"matrix: {{n: {{range: [0, {MEMBERS}]}}}}"
    scenario.apply(scenario.job("exec sleep 1000", name="sweep", top=axes))
    monkeypatch.chdir(scenario.folder)
    apps = find_apps("sweep").apps
    calls.clear()
    assert [error for _, error in stop(apps, 1.0, print)] == [None] * MEMBERS
    assert [ops for ops in calls if "cancel" in ops] == [["cancel"] * MEMBERS]
    assert len(calls) < MEMBERS
    assert scenario.left_in_queue() == []
    scenario.launcher("status", "sweep")
    assert {scenario.attempts(f"sweep-{n}")[-1].state for n in range(MEMBERS)} == {"cancelled"}
