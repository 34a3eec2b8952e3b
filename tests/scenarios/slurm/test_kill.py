"""Wrappers, steps and conductors that are killed while their app runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenarios.slurm.test_faults import conductor_of
from tests.waiting import until

RETRIES = "max_retries: 1\nretry_policy: replica"


class Runs:
    """An app of two replicas, each of which notes its runs, and waits until `end`."""

    def __init__(self, scenario) -> None:
        self._scenario = scenario
        self._path, self._gate = scenario.folder / "runs", scenario.folder / "open"
        script = f"echo $<replica_id> $LAUNCHER_RESTART >>{self._path}"
        script += f"; until [ -e {self._gate} ]; do sleep 0.1; done; echo done"
        scenario.apply(scenario.job(script, replicas=2, role=RETRIES))
        until(lambda: len(self.list()) == 2)

    def list(self) -> list[str]:
        """Return a line `replica restart` for each run."""
        return sorted(self._path.read_text().splitlines()) if self._path.exists() else []

    def programs(self, name: str) -> list[int]:
        """Return the processes that run a wrapper: `python3`, or the `srun` of a step."""
        [app_id] = self._scenario.apps()
        found = processes.with_argument(f"{self._scenario.job_dir}/apps/{app_id}")
        programs = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in found}
        return [
            pid
            for pid, argv in programs.items()
            if b"replica" in argv and os.path.basename(argv[0]).decode() == name
        ]

    def end(self) -> None:
        """Let all replicas succeed."""
        self._gate.touch()
        self._scenario.wait("job")
        assert self._scenario.state("job") is AppState.SUCCEEDED
        assert self._scenario.logs("job").count("done") == 2
        assert self._scenario.left_in_queue() == []


@pytest.mark.slow
def test_a_replica_whose_worker_is_killed_is_started_again_beside_the_others(scenario):
    runs = Runs(scenario)
    wrappers = runs.programs("python3")
    processes.kill([next(pid for pid in wrappers if processes.parent(pid) in wrappers)])
    until(lambda: len(runs.list()) == 3)
    runs.end()
    assert runs.list() in (["0 0", "0 1", "1 0"], ["0 0", "1 0", "1 1"])


@pytest.mark.slow
def test_the_replicas_of_a_step_that_is_killed_are_started_again(scenario):
    runs = Runs(scenario)
    processes.kill(runs.programs("srun")[:1])
    until(lambda: len(runs.list()) == 4)
    runs.end()
    assert runs.list() == ["0 0", "0 1", "1 0", "1 1"]


@pytest.mark.slow
def test_the_end_that_a_killed_conductor_had_decided_counts(scenario):
    up = scenario.folder / "up"
    fails = f"until [ -e {up} ]; do sleep 0.1; done; exit 3"
    stays = f"trap '' TERM; touch {up}; while :; do sleep 0.1; done"
    script = f"if [ $<replica_id> = 0 ]; then {fails}; else {stays}; fi"
    scenario.apply(scenario.job(script, replicas=2))
    [app_id] = scenario.apps()
    events = scenario.job_dir / "apps" / app_id / "events"
    until(lambda: events.exists() and '"stopping"' in events.read_text())
    processes.kill([conductor_of(scenario.cluster, scenario.job_of(app_id))])
    scenario.wait("job", code=5)
    assert scenario.status("job")["message"] == "main/0 exited with 3"
    assert scenario.left_in_queue() == []
