"""`verify` by the engine alone: labels of containers and volumes, images, and output volumes."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.docker import Thing
from tests.engines.images import SHELL_IMAGE

SCRIPT = 'echo 1 >"$LAUNCHER_OUTPUT_DIR/model"; ln -s model "$LAUNCHER_OUTPUT_DIR/last"'


def links(scenario, code: int = 0) -> dict[str, dict[str, Any]]:
    done = scenario.launcher("verify", "job", "--json", code=code)
    return {link["name"]: link for link in json.loads(done.out)["links"]}


@pytest.fixture
def ended(scenario):
    """A scenario in which the job has succeeded, and the state folder is gone."""
    scenario.write("src/data", "1")
    scenario.run_to_end(scenario.job(SCRIPT, top="workspace: src"))
    shutil.rmtree(scenario.home)
    return scenario


def wrong(scenario) -> list[str]:
    return [name for name, each in links(scenario, code=8).items() if each["mark"] == "wrong"]


def label(scenario, volume: Thing, **labels: str) -> None:
    """Make the volume that records the end again, with other labels."""
    scenario.daemon.remove([volume])
    changed = {f"launcher.{name.replace('_', '-')}": text for name, text in labels.items()}
    body = {"Name": volume.name, "Labels": {**volume.labels, **changed}}
    scenario.daemon.ask("POST", "/volumes/create", body)


def name_of_image(scenario) -> str:
    return f"launcher-test/{scenario.token}"


def other_image(scenario) -> None:
    """Replace the container by one with the same name and labels, of another image."""
    daemon, (container,) = scenario.daemon, scenario.containers()
    made = daemon.ask("POST", "/commit", container=container.id, repo=name_of_image(scenario), tag="1")
    daemon.remove([container])
    body = {"Image": made["Id"], "Cmd": ["true"], "Labels": {**container.labels}}
    daemon.ask("POST", "/containers/create", body, name=container.name)


def other_files(scenario) -> None:
    volume = f"{scenario.containers()[0].labels['launcher.app-id']}-output"
    mount = {"Type": "volume", "Source": volume, "Target": "/out"}
    argv = ["sh", "-c", "echo 2 >/out/model"]
    body = {"Image": SHELL_IMAGE, "Cmd": argv, "HostConfig": {"Mounts": [mount]}}
    made = scenario.daemon.ask("POST", "/containers/create", body)["Id"]
    try:
        scenario.daemon.ask("POST", f"/containers/{made}/start")
        assert scenario.daemon.ask("POST", f"/containers/{made}/wait")["StatusCode"] == 0
    finally:
        scenario.daemon.ask("DELETE", f"/containers/{made}")


def test_the_engine_alone_confirms_document_workspace_image_exit_and_outputs(ended):
    found = links(ended)
    marks = {name: link["mark"] for name, link in found.items()}
    assert [name for name, mark in marks.items() if mark == "missing"] == ["pull request", "approval"], found
    assert "wrong" not in marks.values()
    assert f"built from the workspace on {SHELL_IMAGE}" in found["image"]["why"]
    assert found["workspace"]["why"] == "the checkout here has these files"
    assert "is its effect" in found["approval"]["why"]


def test_a_change_at_the_engine_makes_its_link_wrong(ended):
    (volume,) = [each for each in ended.things() if each.name.endswith(".ended")]
    changes: list[tuple[str, Callable[[], None]]] = [
        ("approval", lambda: label(ended, volume, effect="le1:00000000000000000000")),
        ("document", lambda: label(ended, volume, digest="lr1:sha256:0")),
        ("exit", lambda: label(ended, volume, outcome="failed", exit_code="1")),
        ("outputs", lambda: label(ended, volume, output_digest="ou1:sha256:0")),
        ("outputs", lambda: other_files(ended)),
    ]
    for link, change in changes:
        change()
        assert wrong(ended) == [link]
        label(ended, volume)


def test_a_container_of_another_image_is_wrong(ended):
    other_image(ended)
    try:
        assert wrong(ended) == ["image"]
    finally:
        ended.remove_by_hand(ended.containers())
        ended.daemon.remove_image(f"{name_of_image(ended)}:1")
