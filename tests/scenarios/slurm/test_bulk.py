"""The number of requests to a cluster does not grow with the apps that a command takes."""

import json

import pytest

from launcher.apply.plans import make_plan
from launcher.cli.render.plan_text import plan_text
from launcher.inventory.find import find_apps
from launcher.inventory.listing import current
from launcher.inventory.status import inspect_all, stop
from launcher.jobfile.compile.files import compile_files
from launcher.schedulers.slurm.cluster import Cluster
from launcher.schedulers.slurm.site.agent import observe

MEMBERS = 12
LATER = "cfg: {sbatch: {begin: now+1hour}}"
MANY = 70
"""So many apps are read by what the ledger has of them."""


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


def test_logs_of_a_running_app_ask_the_controller_once(scenario, calls_of):
    """A controller that hangs keeps `logs` waiting for each question."""
    gate = scenario.gate()
    scenario.apply(scenario.job(f"echo begun; {gate.script}"))
    gate.entered()
    asked = calls_of("squeue")
    assert scenario.logs("job", "--no-prefix") == "begun\n"
    assert asked.read_text().count("\n") == 1
    gate.open()
    scenario.wait("job")


@pytest.fixture
def sweep(scenario, monkeypatch):
    """The job file of a matrix with many queued apps."""
    file = scenario.job("true", name="sweep", top=f"matrix: {{n: {{range: [0, {MANY}]}}}}\n{LATER}")
    scenario.launcher("apply", file, "--yes")
    monkeypatch.chdir(scenario.folder)
    yield file
    scenario.launcher("cancel", "sweep", "--yes")


@pytest.fixture
def reads(monkeypatch):
    """The apps whose files have been read in full."""
    found: list[str] = []
    read = observe.read_app

    def noted(site, app_id, *args):
        found.append(app_id)
        return read(site, app_id, *args)

    monkeypatch.setattr(observe, "read_app", noted)
    return found


@pytest.mark.slow
def test_short_answers_about_queued_apps_give_the_same_result_as_full_answers(
    scenario, sweep, calls, reads, monkeypatch
):
    apps = find_apps("sweep").apps
    launches = compile_files([str(sweep)]).launches

    def shown():
        plan = make_plan(launches)
        table = [(app.handle, app.state, app.message, app.commit, app.actor) for app in current(apps)]
        return plan.plan_digest, plan_text(plan, in_full=True), table

    for _ in range(10):  # Slurm may have found another reason, or start, between two looks
        in_short, read_in_short = shown(), len(reads)
        with monkeypatch.context() as patch:
            patch.setattr(observe, "queued_apps", lambda *_: [])
            in_full = shown()
        assert (read_in_short, len(reads)) == (0, 2 * MANY)
        reads.clear()
        if in_short == in_full:
            break
    assert in_short == in_full


@pytest.mark.slow
def test_a_queued_app_that_another_client_has_cancelled_is_answered_in_full(scenario, sweep, reads):
    own = Cluster(("", str(scenario.job_dir)))
    apps = find_apps("sweep").apps
    own.ask("cancel", app_id=apps[3].app_id)
    states = [app.state for app in current(apps)]
    assert (states.count("queued"), states.count("cancelled")) == (MANY - 1, 1)
    assert set(reads) == {apps[3].app_id}
    assert sorted(set(scenario.actions(sweep).values())) == ["hold", "keep"]


@pytest.mark.slow
def test_details_of_many_apps_take_as_many_requests_as_those_of_one(scenario, sweep, calls):
    apps = find_apps("sweep").apps
    calls.clear()
    (one,) = inspect_all(apps[:1], print)
    of_one = len(calls)
    calls.clear()
    every = list(inspect_all(apps, print))
    assert len(calls) == of_one
    assert {(app.state, len(app.replicas)) for app in every} == {(one.state, len(one.replicas))}
    shown = json.loads(scenario.launcher("status", "sweep", "--json").out)
    assert [each["handle"] for each in shown] == [app.handle for app in every]
