"""Output folders of jobs in containers: volumes that can be copied, lost and collected."""

import json
import os
import signal

import pytest

from tests.engines.docker import Thing
from tests.scenarios import test_outputs as local
from tests.scenarios.test_outputs import WRITE, pipeline  # noqa: F401


@pytest.fixture
def lose(scenario):
    """A function that removes a volume and its containers, as a user of the engine may."""

    def remove(job: str) -> None:
        attempt = scenario.attempts(job)[-1]
        scenario.remove_by_hand(scenario.containers())
        scenario.daemon.remove(each for each in scenario.daemon.volumes() if each.name == attempt.output)
        assert volumes(scenario, attempt.output) == []

    return remove


def volumes(scenario, name: str) -> list[Thing]:
    return [each for each in scenario.daemon.volumes() if each.name == name]


def copiers(scenario, volume: str) -> list[Thing]:
    """Return the containers that archives of a volume are read from."""
    return [each for each in scenario.daemon.containers() if each.name.startswith(f"{volume}-")]


def test_a_reader_of_a_lost_volume_is_held_until_its_need_has_run_again(pipeline):  # noqa: F811
    local.TestLoss().test_a_reader_of_a_lost_output_folder_is_held_until_its_need_has_run_again(pipeline)


def test_every_state_folder_names_the_volume_and_copies_its_files(scenario):
    scenario.job(WRITE, name="prepare")
    scenario.run_to_end(".")
    volume = scenario.status("prepare")["output"]
    assert scenario.launcher("output", "prepare").out == f"{volume}\n"
    assert len(volumes(scenario, volume)) == 1
    for env in (None, scenario.elsewhere):
        seen = json.loads(scenario.launcher("status", "prepare", "--json", env=env).out)
        assert seen["output"] == volume
        scenario.launcher("output", "prepare", "--copy", f"got{bool(env)}", env=env)
        assert (scenario.folder / f"got{bool(env)}" / "lines").read_text() == "data\n"
    assert copiers(scenario, volume) == []


@pytest.mark.parametrize("name", ["KILL", "TERM"])
def test_the_next_copy_cleans_up_after_a_stopped_copy(scenario, name):
    scenario.job(f"{WRITE}; truncate -s 50G $LAUNCHER_OUTPUT_DIR/huge", name="prepare")
    scenario.run_to_end(".")
    volume = scenario.status("prepare")["output"]
    copying = scenario.start("output", "prepare", "--copy", "got")
    while not any(each.stat().st_size for each in scenario.folder.glob(".got.*/files/huge")):
        assert copying.poll() is None
    copying.send_signal(getattr(signal, f"SIG{name}"))
    copying.wait(60)
    assert len(copiers(scenario, volume)) == (1 if name == "KILL" else 0)
    scenario.launcher("gc", "--project", scenario.token)
    assert copiers(scenario, volume) == []


def test_output_volumes_of_an_engine_that_is_not_asked_do_not_count_as_lost(scenario):
    """A local job needs a job of an engine that does not answer."""
    scenario.job(WRITE, name="prepare")
    scenario.run_to_end(".")
    scenario.write(
        "train.launcher.yaml",
        "version: 1\nname: train\nneeds: [prepare]\nroles: {main: {entrypoint: 'true'}}\n",
    )
    away = {**os.environ, "DOCKER_HOST": "unix:///nowhere.sock"}
    found = scenario.launcher("plan", "train.launcher.yaml", env=away).out
    assert "is gone" not in found
    assert "+   train" in found
