"""SIGKILL of a watcher on the engine at each of its acts: nothing runs twice or is lost, nothing is left."""

import sys
import time
from pathlib import Path

import pytest

from launcher.schedulers.docker.watchers import TURNS
from tests.engines.docker import Refused
from tests.engines.images import SHELL_IMAGE
from tests.lanes import sampled
from tests.scenarios.docker.watched import Watched
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(600)
ALONE = "mkdir alone || echo overlap >>log"
OUTCOMES = {"first": "succeeded", "limited": "failed", "needing": "succeeded", "serving": "succeeded"}
RUNS = ["first", "first", "limited", "needing", "serving"]
LEAST, MOST = 32, 64
"""Acts of the flow of these jobs, at least and at most: probes, for instance, differ in number."""


class Flow:
    """Jobs that need each other, run one at a time, restart, have a service, and one that is stopped in time.

    Args:
        act: the act at which each of their watchers dies.
    """

    def __init__(self, watched: Watched, act: int) -> None:
        self._watched, self._act, self._watchers = watched, act, set[str]()
        self.was_killed = False
        self.log = watched.scenario.folder / "log"
        folder, job = watched.scenario.folder, watched.job
        top = f'project = "{watched.scenario.token}"\n\n[queue]\nmax_parallel = 1\n'
        watched.scenario.write("launcher.toml", top)

        def script(name: str, rest: str = "true") -> str:
            return f"cd {folder}; {ALONE}; echo {name} >>log; {rest}; code=$?; rmdir alone; exit $code"

        again = "max_retries: 1\nretry_policy: application"
        ends = "until [ -e go ]; do sleep 0.05; done; [ $(grep -c first log) = 2 ]"
        job(script("first", ends), name="first", role=again)
        job(script("needing"), name="needing", top="needs: [first]")
        serving = job(
            script("serving"), name="serving", top="needs: [needing]", role="depends_on: {db: started}"
        )
        db = f"{{image: '{SHELL_IMAGE}', run: 'exec sleep 1000', service: true, resource: {{}}}}"
        serving.write_text(f"{serving.read_text()}  db: {db}\n")
        limited = (
            f"cd {folder}; {ALONE}; echo limited >>log; trap 'rmdir alone; exit 3' TERM; sleep 1000 & wait"
        )
        job(limited, name="limited", top="timeout: 15s")

    def run(self, *argv: str) -> None:
        """Run `launcher ARGV`, whose watchers die. It fails where it needs the watcher at that moment."""
        words = [sys.executable, "-m", "tests.kill_at", "engine", str(self._act), "--", *argv]
        done = self._watched.scenario.spawn(words)
        _, err = done.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in err, err
        self._look()

    def finish(self) -> None:
        """Apply the jobs, and again whenever nothing has come of them for a while.

        The first job ends when all have been handed over: else their watcher may end before it has the next.
        """
        deadline, applied_at = time.monotonic() + 2 * PATIENCE_S, 0.0
        while (outcomes := self._watched.outcomes()) != OUTCOMES:
            assert time.monotonic() < deadline, (outcomes, self.lines())
            if time.monotonic() - applied_at > 4:
                self.run("apply", ".", "--yes")
                (self.log.parent / "go").touch()
                applied_at = time.monotonic()
            self._look()
            time.sleep(0.1)
        until(self._is_over)

    def lines(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def _is_over(self) -> bool:
        self._look()
        return not self._watched.watchers()

    def _look(self) -> None:
        """Note whether a watcher has died at the act.

        The volume that shows it may go with the last watcher: other tests collect the garbage of the engine.
        """
        self._watchers |= self._watched.names()
        try:
            volume = Path(self._watched.scenario.daemon.ask("GET", f"/volumes/{TURNS}")["Mountpoint"])
        except Refused as refused:
            if refused.status != 404:
                raise
            return
        self.was_killed |= any((volume / f"killed.{each}").exists() for each in self._watchers)


@pytest.mark.parametrize("act", sampled(range(1, MOST + 1), 9, 30, first=17, every=MOST))
def test_jobs_finish_when_their_watcher_is_killed_at_any_act(scenario, watched, act):
    flow = Flow(watched, act)
    flow.finish()
    assert sorted(flow.lines()) == RUNS
    assert not any(each.labels.get("launcher.part") == "waiting" for each in scenario.containers())
    for job in OUTCOMES:
        assert [each.number for each in scenario.attempts(job)] == [1]
    assert flow.was_killed or act > LEAST
