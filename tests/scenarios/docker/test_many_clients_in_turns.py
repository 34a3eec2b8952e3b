"""Eight clients with two state folders share the cores of an engine, whose watchers take turns for them.

By hand, for more kills: LAUNCHER_KILL_SEEDS=0-49 and `-m ""`.
"""

import os
import random
import subprocess
from pathlib import Path

import pytest

from launcher.schedulers.docker.watchers import TURNS
from launcher.turns.machine import machine
from tests.docker_scenario import DockerScenario
from tests.engines import tidy
from tests.engines.images import PYTHON_IMAGE
from tests.lanes import seeds
from tests.scenarios.docker.watched import Watched, make_own_image
from tests.waiting import until

CLIENTS, FOLDERS, JOBS, AT_ONCE = 8, 4, 4, 2
SHARE = f"resource: {{cpu: {machine(with_gpus=False).cpu / AT_ONCE}}}"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Crowd:
    """Folders of a matrix each, whose jobs log when they begin and end, and the clients that apply them.

    The folder of client k is k modulo FOLDERS, and its state folder is one of two.
    """

    def __init__(self, scenario: DockerScenario) -> None:
        self._scenario = scenario
        self._watched = [Watched(scenario, name=f"watcher{k}") for k in range(2)]
        self.log, self.gate = scenario.folder / "log", scenario.folder / "gate"
        self.folders = [self._write(k) for k in range(FOLDERS)]

    def _write(self, k: int) -> Path:
        folder, job = f"folder{k}", f"job{k}"
        begun, ended = (f"$(grep -c '^{what} ' {self.log})" for what in ("begin", "end"))
        # A job ends only while another one runs: else a slow engine never runs two at once, and a job that
        # begins slowly lets many others pass.
        beside = f"[ {begun} -ge $(({ended} + {AT_ONCE})) ] || [ {begun} -ge {FOLDERS * JOBS} ]"
        wait = f"until [ -e {self.gate} ] && {{ {beside}; }}; do sleep 0.1; done"
        script = f"echo begin $<app_id> >>{self.log}; {wait}; sleep 0.1; echo end $<app_id> >>{self.log}"
        self._scenario.write(f"{folder}/launcher.toml", f'project = "{self._scenario.token}-{k}"\n')
        top = f"matrix: {{n: {[*range(JOBS)]}}}"
        file = self._watched[k % 2].job(script, name=job, top=top, role=SHARE)
        return file.rename(self._scenario.folder / folder / file.name).parent

    def homes(self) -> list[Path]:
        return [self._scenario.home, self._scenario.folder / "other-home"]

    def client(self, k: int) -> subprocess.Popen[str]:
        home = self.homes()[k * 2 // CLIENTS]
        env = {**os.environ, "LAUNCHER_HOME": str(home)}
        folder = self.folders[k % FOLDERS]
        # A slow engine takes minutes to get the jobs of the client before.
        return self._scenario.start("apply", ".", "--yes", "--lock-timeout", "10m", cwd=folder, env=env)

    def lines(self) -> list[list[str]]:
        return [each.split() for each in self.log.read_text().splitlines()] if self.log.exists() else []

    def began(self) -> list[str]:
        """Return the apps that began to run, in order."""
        return [app for what, app in self.lines() if what == "begin"]

    def most_at_once(self) -> int:
        now = most = 0
        for what, _ in self.lines():
            now += 1 if what == "begin" else -1
            most = max(most, now)
        return most

    def tickets(self) -> list[Path]:
        """Return the files in the tables of the engine, but for their locks and last numbers."""
        place = self._scenario.daemon.ask("GET", f"/volumes/{TURNS}")["Mountpoint"]
        return [each for each in Path(place).glob("slots/boot-*/*") if each.name not in ("lock", "last")]

    def in_line(self) -> list[str]:
        [engine] = self._queue()
        return [each["app_id"] for each in engine["line"]]

    def _queue(self) -> list[dict]:
        import json

        return json.loads(self._scenario.launcher("queue", "--json").out)["engines"]

    def assert_all_ran_once(self) -> None:
        """Check that each job has run once, within the budget, and that only its record is left."""
        jobs = sorted(f"job{k}-{n}" for k in range(FOLDERS) for n in range(JOBS))
        for count in range(1, len(jobs) + 1):  # each one soon after another, whatever all of them take
            until(lambda count=count: [what for what, _ in self.lines()].count("end") >= count, self.lines)
        until(lambda: not any(each.watchers() for each in self._watched))
        began = self.began()
        assert len(began) == len({*began}) == len(jobs)
        assert self.most_at_once() == AT_ONCE
        assert self.tickets() == []
        things = self._scenario.things()
        assert tidy.unfinished(things) == []
        assert sorted(
            (each.labels["launcher.job"], each.labels["launcher.outcome"])
            for each in things
            if tidy.is_tombstone(each)
        ) == [(job, "succeeded") for job in jobs]


def test_clients_never_run_more_than_the_budget_and_keep_the_order(scenario, engine):
    make_own_image(PYTHON_IMAGE)
    crowd = Crowd(scenario)
    clients = [crowd.client(k) for k in range(CLIENTS)]
    for each in clients:
        out, err = each.communicate()
        assert each.returncode == 0, out + err
    until(lambda: len(crowd.began()) == AT_ONCE)
    line = crowd.in_line()
    assert len(line) == FOLDERS * JOBS - AT_ONCE
    crowd.gate.touch()
    crowd.assert_all_ran_once()
    began = crowd.began()[AT_ONCE:]
    assert all(abs(began.index(app) - line.index(app)) < AT_ONCE for app in line)


@pytest.mark.parametrize("seed", seeds(1))
def test_kills_of_clients_lose_no_job_and_run_none_twice(scenario, engine, seed):
    make_own_image(PYTHON_IMAGE)
    chance = random.Random(seed)
    crowd = Crowd(scenario)
    crowd.gate.touch()
    for _ in range(2):
        clients = [crowd.client(k) for k in range(CLIENTS)]
        for each in chance.sample(clients, CLIENTS):
            try:
                each.wait(chance.uniform(0.1, 1.5))
            except subprocess.TimeoutExpired:
                each.kill()
            each.communicate()
    for k in range(CLIENTS):
        out, err = (client := crowd.client(k)).communicate()
        assert client.returncode == 0, out + err
    crowd.assert_all_ran_once()
