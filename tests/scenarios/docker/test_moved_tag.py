"""A tag that means another image now re-runs nothing, and the plan says so."""

import json

from tests.engines.docker import Daemon
from tests.engines.images import PYTHON_IMAGE, SHELL_IMAGE, make_images


def test_a_kept_job_whose_tag_means_another_image_is_kept_with_a_note(scenario):
    daemon, name = Daemon(), f"launcher-test/{scenario.token}:1"
    daemon.tag(SHELL_IMAGE, name)
    file = scenario.job("true", image=name)
    try:
        scenario.run_to_end(file)
        assert "note:" not in scenario.launcher("plan", file).out
        [container] = scenario.containers()
        repo, _, tag = name.rpartition(":")
        other = daemon.ask("POST", "/commit", container=container.id, repo=repo, tag=tag, comment="other")
        planned = scenario.launcher("plan", file, "--detailed-exitcode")
        assert planned.code == 0
        short = str(other["Id"]).removeprefix("sha256:")[:12]
        assert f"the engine has {short} under this name now" in planned.out
        report = json.loads(scenario.launcher("plan", file, "--format", "json").out)
        assert [job["action"] for job in report["jobs"]] == ["keep"]
        assert f"role `main` ran {name}" in report["jobs"][0]["notes"][0]
        assert scenario.launcher("apply", file, "--yes").code == 0
        assert len(scenario.attempts()) == 1
        scenario.launcher("gc", "-s", "local_docker", "--older-than", "0")
        assert scenario.containers() == []
        assert "note:" not in scenario.launcher("plan", file).out
    finally:
        daemon.remove_image(name)


def test_a_saved_plan_is_refused_where_a_tag_means_another_image_than_the_plan_shows(scenario):
    make_images(PYTHON_IMAGE)
    daemon, name = Daemon(), f"launcher-test/{scenario.token}:1"
    daemon.tag(SHELL_IMAGE, name)
    file = scenario.job("true", image=name)
    try:
        scenario.launcher("plan", file, "--out", "plan.json")
        shown = json.loads((scenario.folder / "plan.json").read_text())["images"]
        [image] = [each for each in daemon.images() if name in str(each)]
        assert shown == {"local_docker": {name: image.id}}
        daemon.tag(PYTHON_IMAGE, name)
        refused = scenario.launcher("apply", "plan.json", "--yes", code=4)
        assert f'{name} "{image.id}" → "sha256:' in refused.err
        assert scenario.containers() == []
        daemon.tag(SHELL_IMAGE, name)
        scenario.launcher("apply", "plan.json", "--yes", "--wait")
    finally:
        daemon.remove_image(name)
