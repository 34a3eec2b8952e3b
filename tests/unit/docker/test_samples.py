"""The samples of the use of containers: when they are taken, what they hold, and which run they count for."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, active_count
from typing import Any

import pytest

from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.objects import Container, usage_of
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.watching import services
from launcher.schedulers.docker.watching.samples import MOST, AppSamples, SampledRun, Sampler, pause_s
from tests.unit.docker.fake_engine import fake_engine, reply

PATIENCE_S = 120.0
START = 100.0


def container(id: str = "c", start: float | None = START, state: str = "running", k: int = 0) -> Container:
    labels = {"launcher.role": "r", "launcher.replica": str(k)}
    return Container(id=id, name=f"app-r-{k}", state=state, labels=labels, started_at=start, inspected=True)


class Engine:
    """An engine that answers with samples, at last with the last one. `gate` holds each answer back."""

    def __init__(self, *found: Any) -> None:
        self.found = list(found) or [(1.0, 0.5, 100)]
        self.asked: list[str] = []
        self.most = self.now = 0
        self.gate: Event | None = None

    def usage(self, id: str) -> Any:
        self.asked.append(id)
        self.now += 1
        self.most = max(self.most, self.now)
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        self.now -= 1
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found


class Clock:
    """The loop of a watcher on a clock that the test moves."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.posted: list[tuple[float, Callable[[], object]]] = []
        monkeypatch.setattr(services.time, "monotonic", lambda: self.now)
        self.sampler = Sampler(engine, lambda call, after_s: self.posted.append((self.now + after_s, call)))  # type: ignore[arg-type]
        self.app = AppSamples(self.sampler)

    def until(self, at: float) -> list[float]:
        """Let the time pass; returns the times at which calls were due."""
        passed = []
        while due := [each for each in self.posted if each[0] <= at]:
            first = min(due, key=lambda each: each[0])
            self.posted.remove(first)
            self.now = first[0]
            passed.append(self.now)
            first[1]()
            self.settle()
        self.now = at
        return passed

    def settle(self) -> None:
        wait_for(lambda: self.sampler._threads == 0)


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.perf_counter() + PATIENCE_S
    while not holds():
        assert time.perf_counter() < deadline, "it did not happen"
        time.sleep(0.001)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def clock(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock(engine, monkeypatch)
    yield made
    made.app.close()


def exit_of(id: str | None = "c", start: float | None = START) -> dict[str, Any]:
    return {"e": "exit", "role": "r", "k": 0, "code": 0, **({"id": id, "start": start} if id else {})}


def use_in(app: AppSamples, event: dict[str, Any]) -> Any:
    app.add_use(event)
    return event.get("use")


# -- when ----------------------------------------------------------------------------------------------------


def test_a_run_is_sampled_when_its_age_has_doubled_and_every_300_s(clock: Clock, engine: Engine) -> None:
    clock.app.follow([container()])
    assert clock.until(1500.0) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 812, 1112, 1412]
    assert engine.asked == ["c"] * 13


def test_further_looks_do_not_move_the_next_sample(clock: Clock, engine: Engine) -> None:
    for _ in range(3):
        clock.app.follow([container()])
    clock.app.follow([container(state="paused")])
    clock.until(1.0)
    assert engine.asked == ["c"]


def test_a_sample_that_was_late_delays_the_next_one() -> None:
    assert [pause_s(age_s) for age_s in (0.0, 1.0, 1.5, 299.0, 1e6)] == [1.0, 1.0, 1.5, 299.0, 300.0]


@pytest.mark.parametrize("end", ["ended", "gone", "closed", "reported"])
def test_a_run_that_is_over_is_not_sampled(clock: Clock, engine: Engine, end: str) -> None:
    clock.app.follow([container()])
    if end == "closed":
        clock.app.close()
    elif end == "reported":
        clock.app.add_use(exit_of())
    else:
        clock.app.follow([container(state="exited")] if end == "ended" else [])
    clock.until(1000.0)
    assert (engine.asked, clock.posted) == ([], [])


def test_a_removed_container_is_sampled_once_more(clock: Clock, engine: Engine) -> None:
    engine.found = [None]
    clock.app.follow([container()])
    clock.until(1000.0)
    assert (engine.asked, clock.posted) == (["c"], [])


@pytest.mark.parametrize("error", [EngineError("no"), OverflowError("inf")])
def test_a_failed_sample_prevents_no_later_sample(clock: Clock, engine: Engine, error: Exception) -> None:
    engine.found = [error, (2.0, 1.0, 7)]
    clock.app.follow([container()])
    clock.until(2.0)
    assert use_in(clock.app, exit_of()) == [2.0, 1.0, 7, "samples"]


def test_no_engine_behind_ssh_is_asked() -> None:
    app = AppSamples(None)
    app.follow([container()])
    assert use_in(app, exit_of()) is None


def test_a_slow_engine_gets_few_requests_at_once_and_does_not_block_the_watcher(clock, engine):
    engine.gate = Event()
    before = active_count()
    clock.app.follow([container(f"c{k}", k=k) for k in range(20)])
    due, clock.posted = clock.posted, []
    clock.now = 1.0
    for _, call in due:
        call()
    wait_for(lambda: engine.now == MOST)
    assert (active_count() - before, len(engine.asked)) == (MOST, MOST)
    engine.gate.set()
    wait_for(lambda: len(clock.posted) == 20)
    assert engine.most == MOST
    assert sorted(engine.asked) == sorted(f"c{k}" for k in range(20))
    wait_for(lambda: active_count() == before)


def test_a_machine_without_threads_samples_later(clock: Clock, engine: Engine, monkeypatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    clock.app.follow([container()])
    with monkeypatch.context() as full:
        full.setattr(services.Thread, "start", refuse)
        clock.until(1.0)
    clock.until(2.0)
    assert engine.asked == ["c"]


# -- which run -----------------------------------------------------------------------------------------------


def test_the_highest_memory_and_the_last_time_count(clock: Clock, engine: Engine) -> None:
    engine.found = [(1.0, 0.1, 900), (2.0, 0.1, 300), (0.0, 0.0, 0)]
    clock.app.follow([container()])
    clock.until(4.0)
    assert use_in(clock.app, exit_of()) == [2.0, 0.1, 900, "samples"]


@pytest.mark.parametrize(("event", "is_known"), [
    (exit_of(), True),
    (exit_of(start=START - 0.1), True),  # the engine records the start of a short run after its end
    (exit_of(start=START + 1), False),
    (exit_of("other"), False),
    (exit_of(None), True),  # its container was removed
    ({"e": "restart", "role": "r", "k": 0, "id": "c", "by": "engine"}, True),
    ({"e": "spawn", "role": "r", "k": 0, "id": "c", "start": START}, False),
    ({"e": "starting"}, False),
])  # fmt: skip
def test_a_sample_counts_for_its_run_alone(clock: Clock, event: dict[str, Any], is_known: bool) -> None:
    clock.app.follow([container()])
    clock.until(1.0)
    assert (use_in(clock.app, dict(event)) is not None) is is_known


def test_each_run_of_a_container_that_is_started_again_has_its_own_samples(clock, engine):
    engine.found = [(5.0, 0.0, 50), (1.0, 0.0, 10)]
    clock.app.follow([container()])
    clock.until(1.0)
    assert use_in(clock.app, {"e": "restart", "role": "r", "k": 0, "id": "c"}) == [5.0, 0.0, 50, "samples"]
    clock.app.follow([container(start=START + 1)])
    clock.until(2.0)
    assert use_in(clock.app, exit_of(start=START + 1)) == [1.0, 0.0, 10, "samples"]


def test_a_run_without_a_sample_has_no_use(clock: Clock) -> None:
    clock.app.follow([container()])
    assert use_in(clock.app, exit_of()) is None


def test_a_sample_of_zeros_counts_as_unknown() -> None:
    run = SampledRun("c", START)
    run.take(0.0, 0.0, 0)
    assert run.use is None
    run.take(0.25, 0.0, 0)
    assert run.use == [0.25, 0.0, 0, ""]


def test_the_runs_before_a_restart_by_the_engine_are_counted() -> None:
    run = {"role": "r", "k": 0, "id": "c"}
    restart = {
        "e": "restart",
        "scope": "replica",
        "n": 1,
        "by": "engine",
        **run,
        "use": [5.0, 1.0, 50, "samples"],
    }
    journal = Journal(
        [
            {"e": "created", "roles": [["r", 1]], "t": 0},
            {"e": "starting", "t": 0},
            {"e": "spawn", **run, "start": 1.0, "t": 10**9},
            {**restart, "t": 4 * 10**9},
            {"e": "spawn", **run, "start": 4.0, "t": 4 * 10**9},
            {"e": "exit", **run, "start": 4.0, "code": 0, "use": [1.0, 0.0, 10, "samples"], "t": 6 * 10**9},
        ]
    )
    assert {role: used.to_json() for role, used in journal.app.used.items()} == {
        "r": {"cpu_user_s": 6.0, "cpu_system_s": 1.0, "wall_s": 5.0, "cores": 2.0, "memory_bytes": 50,
            "memory_source": "samples", "runs": 2}
    }  # fmt: skip


# -- read values ---------------------------------------------------------------------------------------------

CPU = {"total_usage": 3 * 10**9, "usage_in_usermode": 2 * 10**9, "usage_in_kernelmode": 10**9}


@pytest.mark.parametrize(("cpu", "memory", "found"), [
    (CPU, {"usage": 10, "max_usage": 90, "stats": {"total_inactive_file": 4}}, (2.0, 1.0, 90)),
    (CPU, {"usage": 10, "max_usage": 0, "stats": {"total_inactive_file": 4}}, (2.0, 1.0, 6)),
    (CPU, {"usage": 10, "stats": {"inactive_file": 3, "anon": 7}}, (2.0, 1.0, 7)),
    (CPU, {"usage": 10, "stats": {"inactive_file": 30}}, (2.0, 1.0, 0)),
    (CPU, {"usage": 10, "stats": None}, (2.0, 1.0, 10)),
    (CPU, {}, (2.0, 1.0, 0)),
    ({"total_usage": 3 * 10**9, "usage_in_usermode": 0}, {}, (3.0, 0.0, 0)),
    (None, None, (0.0, 0.0, 0)),
])  # fmt: skip
def test_the_use_is_read_from_either_kind_of_cgroups(cpu: Any, memory: Any, found: object) -> None:
    assert usage_of({"cpu_stats": {"cpu_usage": cpu}, "memory_stats": memory}) == found


def test_a_container_that_does_not_run_has_used_nothing() -> None:
    assert usage_of({"read": "0001-01-01T00:00:00Z", "name": "/c"}) == (0.0, 0.0, 0)


def test_one_request_asks_for_one_sample(tmp_path: Path) -> None:
    answers = [reply(200, '{"cpu_stats": {"cpu_usage": {"usage_in_usermode": 2e9}}}'), reply(404, "{}")]
    with fake_engine(tmp_path, lambda method, path: answers.pop(0)) as (fake, engine):
        assert (engine.usage("c/d"), engine.usage("c")) == ((2.0, 0.0, 0), None)
        assert fake.asked[1] == "GET /v1.41/containers/c%2Fd/stats?stream=false&one-shot=true"


@pytest.mark.parametrize("answer", ['{"memory_stats": {"usage": "many"}}', "[]"])
def test_a_nonsense_answer_to_a_sample_is_an_engine_error(tmp_path: Path, answer: str) -> None:
    with (
        fake_engine(tmp_path, lambda method, path: reply(200, answer)) as (_, engine),
        pytest.raises(EngineError),
    ):
        engine.usage("c")
