"""A tag that means another image now re-runs nothing, and the plan says so."""

import json

from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE


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
