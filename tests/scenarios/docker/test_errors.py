"""Failures of replicas in containers as commands explain them, and the progress of images."""

import json
import os

from launcher.schedulers.docker.client.engine import connect
from tests.docker_scenario import DockerScenario
from tests.engines.images import PYTHON_IMAGE, make_images
from tests.scenarios.test_first_failures import explained

ERROR = json.dumps({"message": {"message": "ValueError: no data", "extraInfo": {"timestamp": "1700000000"}}})


def test_status_shows_the_root_cause_above_the_replicas(scenario: DockerScenario) -> None:
    script = f"echo '{ERROR}' > $TORCHELASTIC_ERROR_FILE; exit 3"
    scenario.run_to_end(scenario.job(script), code=5)
    shown = scenario.launcher("status", "job").out
    block, table = shown[shown.index("ROOT CAUSE") :].split("REPLICA", 1)
    assert "main/0: ValueError: no data" in block
    assert "exit code 3" in block
    assert "2023-11-1" in block
    assert "ValueError: no data" in table
    found = scenario.status("job")
    assert found["root_cause"]["message"] == "ValueError: no data"
    assert found["root_cause"]["host"] == found["replicas"][0]["host"] != ""
    assert "main/0: ValueError: no data" in scenario.launcher("wait", "job", code=5).out


def test_a_replica_that_was_stopped_after_a_failure_may_be_the_root_cause(scenario: DockerScenario) -> None:
    """The replica with the first error ended last."""
    script = f"""
    if [ $K = 1 ]; then
      trap 'exit 9' TERM
      echo '{ERROR}' > $TORCHELASTIC_ERROR_FILE; touch {scenario.folder}/told
      while :; do sleep 0.05; done
    fi
    until [ -e {scenario.folder}/told ]; do sleep 0.05; done
    exit 3
    """
    scenario.run_to_end(scenario.job(script, replicas=2, role="env: {K: $<replica_id>}"), code=5)
    assert scenario.status("job")["root_cause"]["replica"] == 1


def test_a_cancelled_app_has_no_root_cause(scenario: DockerScenario) -> None:
    script = f"""
    trap 'echo oops > $TORCHELASTIC_ERROR_FILE; exit 9' TERM
    echo > {scenario.folder}/up; while :; do sleep 0.05; done
    """
    os.mkfifo(scenario.folder / "up")
    scenario.apply(scenario.job(script))
    (scenario.folder / "up").read_text()  # returns when the replica has written there
    scenario.launcher("cancel", "job")
    assert scenario.status("job")["root_cause"] is None


def test_an_apply_submits_nothing_when_a_replica_asks_for_more_cores_than_the_engine_has(scenario):
    """Two replicas may ask together for more cores than there are: their job runs alone."""
    most = connect().size()
    assert most is not None
    scenario.job("true", name="wide", role=f"resource: {{cpu: {most[0] + 1}}}")
    scenario.job("true", name="narrow", replicas=2, role=f"resource: {{cpu: {most[0]}}}")
    assert scenario.actions(".") == {"wide": "hold", "narrow": "create"}
    refused = scenario.apply(".", code=3)
    assert f"wide: roles.main.resource.cpu = {most[0] + 1:g} is more than the {most[0]:g} core" in refused.err
    assert scenario.apps() == []
    scenario.run_to_end("narrow.launcher.yaml")


def test_run_reports_the_progress_of_its_images(scenario: DockerScenario) -> None:
    scenario.write("src/words.txt", scenario.token)
    path = scenario.job("cat words.txt", top="workspace: src")
    report = scenario.launcher("run", path)
    assert report.out == scenario.token
    assert "building launcher-workspace:" in report.err
    assert "built launcher-workspace:" in report.err
    assert "builds" not in scenario.launcher("run", path).err


def test_a_container_that_ran_out_of_memory_is_explained(scenario):
    make_images(PYTHON_IMAGE)
    script = "echo loading; python3 -c 'held = bytearray(256 << 20)'"
    scenario.run_to_end(scenario.job(script, role="resource: {memory: 32MiB}", image=PYTHON_IMAGE), code=5)
    explained(scenario, "job", "main/0", "out of memory", "loading")
