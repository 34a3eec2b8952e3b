"""Local jobs hand their output folders to containers of this machine's engine, read-only."""

import json
import os

import pytest

from tests.scenario import Scenario

READ = "$<needs.train.output_dir>"


@pytest.fixture
def gate(scenario):
    """Write the job file of `train`, a local job that writes a model once this file exists."""
    gate = scenario.folder / "gate"
    write = "umask 022; echo model >$LAUNCHER_OUTPUT_DIR/model"
    Scenario.job(scenario, f"until [ -e {gate} ]; do sleep 0.05; done; {write}", name="train")
    return gate


def test_a_container_of_any_user_reads_the_output_folder_of_a_local_job(scenario, gate):
    scenario.job(
        f"id -u; cat {READ}/model; touch {READ}/x 2>&- || echo refused; echo $LAUNCHER_NEEDS",
        name="evaluate",
        top="needs: [train]\ncfg: {user: '1234'}",
    )
    scenario.apply(".")
    assert scenario.attempts("evaluate")[-1].state == "waiting"
    gate.touch()
    scenario.wait("evaluate")
    user, model, refused, needs = scenario.logs("evaluate", "--no-prefix").splitlines()
    assert (user, model, refused) == ("1234", "model", "refused")
    assert json.loads(needs) == [{"job": "train", "output_dir": "/launcher/needs/train"}]
    [folder] = (scenario.home / "local" / "outputs").iterdir()
    assert os.listdir(folder) == ["model"]
    [container] = scenario.containers(scenario.attempts("evaluate")[-1].app_id)
    mounts = {each["Destination"]: each for each in scenario.daemon.inspect(container.id)["Mounts"]}
    found = mounts["/launcher/needs/train"]
    assert (found["Type"], found["Source"], found["RW"]) == ("bind", str(folder), False)


def test_a_container_reads_the_output_folder_of_the_edition_that_it_needs(scenario, gate):
    gate.touch()
    scenario.job(f"cat {READ}/model", name="evaluate", top="needs: [train]")
    scenario.run_to_end(".")
    Scenario.job(scenario, "echo better >$LAUNCHER_OUTPUT_DIR/model", name="train")
    assert scenario.actions(".") == {"train": "create", "evaluate": "rerun"}
    scenario.run_to_end(".")
    assert scenario.logs("evaluate@1", "--no-prefix") == "model\n"
    assert scenario.logs("evaluate@2", "--no-prefix") == "better\n"


def test_a_missing_output_folder_is_named_with_the_remedy(scenario, gate):
    gate.touch()
    scenario.job(f"cat {READ}/model", name="evaluate", top="needs: [train]")
    scenario.run_to_end(scenario.folder / "train.launcher.yaml")
    [folder] = (scenario.home / "local" / "outputs").iterdir()
    (folder / "model").unlink()
    folder.rmdir()
    done = scenario.apply(".")
    assert "hold: needs_failed (train: its output folder is gone)" in done.out
    assert "to make it again: --rerun train" in done.out
    assert scenario.containers() == []
