"""The CPU time and memory of containers are sampled while they run, and recorded at their end."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from launcher.schedulers.docker import record
from tests.engines.proxy import Proxy, everything
from tests.waiting import until

HANGS_S = 600.0


class Samples:
    """The engine behind a proxy that sees the samples. A sample that another one follows was answered."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.most_s = 0.0

    def asked(self, container: str) -> int:
        return sum(f"/containers/{container}/stats?" in each for each in list(self.proxy.seen))

    def taken(self, container: str, count: int) -> None:
        """Wait until this many further samples were taken."""
        first = self.asked(container)  # which may not be answered yet
        until(lambda: self.asked(container) > first + count)

    def delay_s(self, _method: str, path: str) -> float:
        return self.most_s if "/stats?" in path else 0.0


@pytest.fixture
def samples(scenario, tmp_path) -> Iterator[Samples]:
    with Proxy(tmp_path / "p.sock", everything) as proxy, pytest.MonkeyPatch.context() as behind:
        behind.setenv("DOCKER_HOST", proxy.host)
        made = Samples(proxy)
        proxy.delay_s = made.delay_s
        yield made
        for each in scenario.apps():
            scenario.cancel(each, code=None)


def used(scenario: Any, job: str = "job") -> dict[str, Any]:
    found: dict[str, Any] = scenario.status(job)["used"]
    return found


def burn(scenario: Any) -> str:
    return f"until test -e {scenario.folder}/go; do :; done"


def container(scenario: Any) -> str:
    return str(scenario.containers()[0].id)


def until_burnt(scenario: Any, cpu_s: float = 0.2) -> None:
    """Wait until the container has used so much CPU time, of which a busy machine has little to give."""
    path = f"/containers/{container(scenario)}/stats"

    def used_s() -> float:
        shown = scenario.daemon.ask("GET", path, **{"stream": "0", "one-shot": "1"})
        return float(shown["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9)

    until(lambda: used_s() > cpu_s)


def recorded_starts(scenario: Any) -> int:
    """Return the number of runs whose start the watcher has recorded."""
    [app_id] = scenario.apps()
    journal = record.journal(record.folder(app_id))
    return sum(event["e"] == "spawn" for event in journal.events) if journal is not None else 0


def open_gate(scenario: Any, name: str = "go") -> None:
    (scenario.folder / name).touch()


def test_other_state_folders_read_the_use_of_a_job_from_its_record(scenario, samples, monkeypatch, tmp_path):
    scenario.apply(scenario.job(burn(scenario)))
    until_burnt(scenario)
    samples.taken(container(scenario), 2)
    open_gate(scenario)
    scenario.wait("job")
    found = used(scenario)
    [use] = found.values()
    cpu_s = use["cpu_user_s"] + use["cpu_system_s"]
    assert (
        0.1 < cpu_s <= 1.05 * use["wall_s"]
    )  # it keeps one core busy, as far as the machine has that to give
    assert use["memory_bytes"] > 10_000
    assert (list(found), use["memory_source"], use["runs"]) == (["main"], "samples", 1)
    scenario.launcher("gc", "--older-than", "0", "-s", "local_docker")
    assert scenario.containers() == []
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    assert used(scenario) == found


def test_the_use_of_a_replica_includes_each_run_that_its_engine_starts(scenario, samples):
    folder = scenario.folder
    wait = "until test -e {}; do sleep 0.05; done"
    first, second = wait.format(folder / "first"), wait.format(folder / "second")
    script = f"if mkdir {folder}/once; then {first}; exit 3; fi; {second}"
    scenario.apply(scenario.job(script, role="max_retries: 1\nretry_policy: replica"))
    for number, run in enumerate(("first", "second"), start=1):
        until(
            lambda number=number: recorded_starts(scenario) == number
        )  # or the samples are of the run before
        samples.taken(container(scenario), 1)
        open_gate(scenario, run)
    scenario.wait("job")
    assert (scenario.status("job")["num_restarts"], used(scenario)["main"]["runs"]) == (1, 2)


def test_the_next_watcher_continues_with_the_samples_of_a_killed_watcher(scenario, samples):
    scenario.apply(scenario.job(burn(scenario)))
    samples.taken(container(scenario), 1)
    scenario.kill_watchers()
    assert scenario.status("job")["state"] == "RUNNING"
    until_burnt(scenario)
    samples.taken(container(scenario), 1)
    open_gate(scenario)
    scenario.wait("job")
    use = used(scenario)["main"]
    assert use["cpu_user_s"] + use["cpu_system_s"] > 0.1
    assert (use["memory_source"], use["runs"]) == ("samples", 1)


def test_an_apply_at_the_end_of_an_app_leaves_the_record_to_the_watcher(scenario, samples):
    """The containers show the end of the app, but not its use."""
    file = scenario.job(burn(scenario))
    scenario.apply(file)
    samples.taken(container(scenario), 1)
    [watcher] = scenario.watchers()
    os.kill(watcher, signal.SIGSTOP)
    open_gate(scenario)
    until(lambda: scenario.containers()[0].state == "exited")
    scenario.apply(file)
    os.kill(watcher, signal.SIGCONT)
    scenario.wait("job")
    scenario.apply(file)
    [attempt] = scenario.attempts()
    assert (attempt.state, list(attempt.used)) == ("succeeded", ["main"])


def test_unanswered_samples_delay_no_app_and_no_watcher(scenario, samples):
    samples.most_s = HANGS_S
    sleep = scenario.job("exec sleep 1000", name="sleep", replicas=6)
    scenario.apply(sleep)
    until(lambda: sum("/stats?" in each for each in list(samples.proxy.seen)) == 4)
    scenario.run_to_end(scenario.job("exit 3", role="max_retries: 1"), code=None)
    assert scenario.status("job")["num_restarts"] == 1
    scenario.cancel("sleep")
    until(lambda: scenario.watchers() == [])
    assert sum("/stats?" in each for each in list(samples.proxy.seen)) == 4
    assert json.loads(scenario.launcher("list", "--json").out)
