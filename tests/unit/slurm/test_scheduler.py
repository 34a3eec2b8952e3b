"""The cost of the Slurm scheduler where it is not used, and its requests shared among threads."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from launcher.apply import follow
from launcher.apply.events import Outcome, Watching
from launcher.errors import SchedulerError
from launcher.schedulers import get_scheduler
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.apps import SlurmApps, Stops
from launcher.schedulers.slurm.clusters import Clusters, Waiter
from launcher.schedulers.slurm.submit import SlurmReservation
from launcher.specs.app import AppDef, Role
from launcher.specs.jobkey import JobKey
from launcher.state.records import AppRecord


@pytest.fixture
def scheduler(launcher_home, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    made = get_scheduler("slurm", "p")
    yield made
    made.close()


def test_a_state_folder_without_slurm_has_no_engine_to_ask(scheduler, launcher_home, monkeypatch):
    def refuse(*_):
        raise AssertionError("asked a cluster")

    monkeypatch.setattr("launcher.schedulers.slurm.cluster.Cluster.call", refuse)
    assert (scheduler.shared_engine, scheduler.has_apps_here(), scheduler.is_in_use()) == ("", False, False)
    assert scheduler.observe([JobKey("p", "default", "train")]) == []
    assert (list(scheduler.refresh(["train-1-x"])), scheduler.records(), scheduler.reap()) == ([], [], [])
    assert (scheduler.record("train-1-x"), scheduler.attempt("train-1-x")) == (None, None)
    assert not launcher_home.exists()


class InterruptedAtStart:
    """A cluster whose user presses Ctrl-C while it is asked to start an app."""

    programs: tuple[dict[str, str], ...] = ()
    place = ("", "~")

    def call(self, *ops):
        if ops[-1]["op"] == "start":
            raise KeyboardInterrupt
        return [{} for _ in ops]


def test_closing_cancels_an_attached_app_whose_start_was_interrupted(scheduler, monkeypatch, launcher_home):
    stopped, cluster = [], InterruptedAtStart()
    monkeypatch.setattr(type(scheduler), "stop", lambda _, app_id, *__, **___: stopped.append(app_id))
    monkeypatch.setattr(
        scheduler, "claim", lambda attempt: SlurmReservation(cluster, attempt, "nonce", resumed=False)
    )
    info = scheduler.submit_dryrun(AppDef("train", [Role("main", "", entrypoint="true")]), {})
    with pytest.raises(KeyboardInterrupt):
        scheduler.launch("train-1-x", info)
    scheduler.close()
    assert stopped == ["train-1-x"]


def live(app_id="train-1-x"):
    attempt = {"key": None, "name": "train", "session": "p", "app_id": app_id, "created_at": 1.0}
    started = {"job": "1", "at": 2.0}
    queue = [{"job": "1", "state": "RUNNING", "reason": "None", "start_at": 2.0}]
    return {"attempt": attempt, "submitted": 1.5, "started": started, "queue": queue, "outcome": None}


def ended(app_id="train-1-x"):
    return {**live(app_id), "outcome": {"state": "succeeded", "ended_at": 3.0}}


class FakeCluster:
    """Answers from `apps`: app id → facts. An operation of `held` blocks until it is released."""

    def __init__(self, apps, place=("login1", "~")):
        self.place = place
        self.host = place[0]
        self.apps = apps
        self.calls = []
        self.entered = threading.Semaphore(0)
        self.released = threading.Event()

    def call(self, *ops):
        return [self._answer(op) for op in ops]

    def close(self):
        pass

    def answers(self, *ops):
        return self.call(*ops)

    def ask(self, op, **fields):
        return self._answer({"op": op, **fields})

    def _answer(self, op):
        self.calls.append(op)
        if op["op"] == "wait":
            self.entered.release()
            assert self.released.wait(60)
        asked = op.get("app_ids")
        ids = [*self.apps] if asked is None else asked
        found = {each: self.apps[each] for each in ids if each in self.apps}
        if op["op"] == "wait":
            return {
                "apps": {each: facts for each, facts in found.items() if facts["outcome"]},
                "missing": [each for each in ids if each not in self.apps],
                "queue": [0.0, 2.0],
            }
        return {"apps": found, "queued": []} if op["op"] == "observe" else {}


def test_twenty_threads_wait_with_one_request_at_a_time():
    ids = [f"train-{k}-x" for k in range(20)]
    cluster = FakeCluster({each: live(each) for each in ids})
    waiter, found = Waiter(cluster), {}

    def wait(app_id):
        found[app_id] = waiter.until_end(app_id)

    threads = [threading.Thread(target=wait, args=(each,)) for each in ids]
    for thread in threads:
        thread.start()
    assert cluster.entered.acquire(timeout=60)
    cluster.apps = {each: ended(each) for each in ids}
    cluster.released.set()
    for thread in threads:
        thread.join(60)
    states = {app_id: facts["outcome"]["state"] for app_id, facts in found.items()}
    assert states == dict.fromkeys(ids, "succeeded")
    assert len(cluster.calls) <= 1 + len(ids) // 2  # a few threads may come while the first request goes on


def test_a_wait_for_an_app_that_is_gone_ends():
    cluster = FakeCluster({})
    cluster.released.set()
    assert Waiter(cluster).until_end("train-1-x") is None


def test_an_error_of_the_request_reaches_every_thread():
    cluster = FakeCluster({"train-1-x": live()})

    def fail(*_, **__):
        raise SchedulerError("cannot reach login1")

    cluster.ask = fail
    for _ in range(2):
        with pytest.raises(SchedulerError, match="login1"):
            Waiter(cluster).until_end("train-1-x")


@pytest.fixture
def clusters(launcher_home, monkeypatch, tmp_path):
    """Two clusters: `near` has train-1-x, and `far` cannot be reached."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for app_id, place in (("train-1-x", ("near", "~")), ("sim-1-x", ("far", "~"))):
        known.remember([AppRecord("slurm", "p", app_id, name="n", created_at=1.0)], place)
    far = FakeCluster({}, ("far", "~"))

    def fail(*_):
        raise SchedulerError("cannot reach far")

    far.call = far.ask = fail
    made = Clusters()
    made._made = {("near", "~"): FakeCluster({"train-1-x": ended()}, ("near", "~")), far.place: far}
    return made


def test_a_cluster_that_is_down_hides_no_app_of_another(clusters):
    found = clusters.find("train-1-x")
    assert found[0].place == ("near", "~")
    with pytest.raises(SchedulerError, match="cannot reach far"):
        clusters.find("sim-1-x")
    with pytest.raises(SchedulerError, match="cannot reach far"):
        clusters.find("from-elsewhere-1-x")


def test_a_plan_needs_only_the_clusters_that_its_jobs_go_to(clusters):
    assert SlurmApps(clusters).observe([]) == []
    clusters.expect(("near", "~"))
    assert SlurmApps(clusters).observe([]) == []
    clusters.expect(("far", "~"))
    with pytest.raises(SchedulerError, match="cannot reach far"):
        SlurmApps(clusters).observe([])


def test_finding_attempts_asks_slurm_nothing(scheduler):
    place = ("login1", "~")
    known.remember([AppRecord("slurm", "p", "train-1-x", name="n", created_at=1.0)], place)
    cluster = FakeCluster({"train-1-x": live()})
    scheduler._clusters._made = {place: cluster}
    assert scheduler.attempts_of([]) == []  # an app without a job
    assert [op["look"] for op in cluster.calls] == [False]


def test_a_wait_for_an_app_submitted_from_here_is_one_request(scheduler):
    place = ("login1", "~")
    known.remember([AppRecord("slurm", "p", "train-1-x", name="n", created_at=1.0)], place)
    cluster = FakeCluster({"train-1-x": ended()})
    cluster.released.set()
    scheduler._clusters._made = {place: cluster}
    assert scheduler.ended_attempt("train-1-x") is None  # an app without a job
    assert [op["op"] for op in cluster.calls] == ["wait"]


def test_broken_slurm_commands_here_do_not_affect_apps_of_other_clusters(clusters, tmp_path, monkeypatch):
    (tmp_path / ".launcher" / "slurm" / "apps").mkdir(parents=True)
    monkeypatch.setattr(known, "has_commands", lambda: True)
    here = FakeCluster({}, ("", known.DEFAULT_JOB_DIR))

    def fail(*_):
        raise SchedulerError("no controller")

    here.call = here.ask = fail
    clusters._made |= {here.place: here, ("far", "~"): FakeCluster({}, ("far", "~"))}
    assert [app.app_id for app in SlurmApps(clusters).records()] == ["train-1-x"]
    assert clusters.find("from-elsewhere-1-x") is None
    known.remember([AppRecord("slurm", "p", "here-1-x", name="n", created_at=1.0)], here.place)
    for ask in (lambda: SlurmApps(clusters).records(), lambda: clusters.find("from-elsewhere-1-x")):
        with pytest.raises(SchedulerError, match="no controller"):
            ask()


def test_a_display_of_live_apps_asks_no_more_often_than_every_two_seconds(scheduler):
    pauses = []

    class Done:
        def wait(self, seconds):
            pauses.append(seconds)
            return True

    app = AppRecord("slurm", "p", "train-1-x", state="running")
    live = [Outcome(key=JobKey("p", "default", "train"), kind="create", app=app)]
    watching = Watching(on_progress=lambda *_: None)
    follower = follow._Follower(live, SimpleNamespace(get=lambda _: scheduler), None, None, watching)
    follower._report_progress(Done())
    assert pauses == [2.0]


def test_recording_the_ends_of_many_live_apps_takes_one_request(scheduler, launcher_home):
    place = ("login1", "~")
    apps = {f"train-{k}-x": live(f"train-{k}-x") for k in range(50)}
    for app_id in apps:
        known.remember([AppRecord("slurm", "p", app_id, name="n", created_at=1.0)], place)
    cluster = FakeCluster(apps)
    scheduler._clusters._made = {place: cluster}
    assert scheduler.reap() == []
    assert [scheduler.attempt(app_id) for app_id in apps] == [None] * 50  # apps without a job
    assert len(cluster.calls) == 1
    cluster.apps["train-0-x"] = ended("train-0-x")
    scheduler.attempt("train-0-x")
    assert len(cluster.calls) == 2


def test_a_grace_period_stands_still_while_slurm_suspends_the_job(monkeypatch):
    clock = [0.0]

    def sleep(seconds):
        clock[0] += seconds

    times = SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0], sleep=sleep)
    monkeypatch.setattr("launcher.schedulers.slurm.apps.time", times)

    class Suspended(FakeCluster):
        def _answer(self, op):
            state = "SUSPENDED" if clock[0] < 200 else "RUNNING"
            facts = live() if clock[0] < 220 else ended()
            queue = [{"job": "1", "state": state}] if clock[0] < 220 else []
            self.apps = {"train-1-x": {**facts, "queue": queue}}
            return super()._answer(op)

    cluster = Suspended({})
    assert list(Stops(cluster, 1.0, False, print).all({"train-1-x": live()})) == [("train-1-x", None)]
    assert [op["op"] for op in cluster.calls if op["op"] == "cancel"] == ["cancel"]


@pytest.mark.parametrize(("answer", "is_over"), [
    ({"state": "queued"}, True),
    ({"error": "refused", "message": "m"}, False),  # nothing will run: it is taken back
    ({"error": "state", "message": "job 7 of train-1-x has gone"}, False),
    ({"error": "unreachable", "message": "m"}, True),  # it may have been released
    ({"error": "reserved", "message": "m"}, True),  # another client goes on with it
])  # fmt: skip
def test_a_start_that_can_lead_to_nothing_is_taken_back(answer, is_over):
    cluster, attempt = SimpleNamespace(call=lambda op: [answer]), SimpleNamespace(app_id="train-1-x")
    reservation = SlurmReservation(cluster, attempt, "n1", resumed=True)
    with nullcontext() if "state" in answer else pytest.raises(SchedulerError):
        reservation.start()
    assert reservation.is_over is is_over
