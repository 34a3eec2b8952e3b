"""A container of an image that `docker commit` made from a replica has its labels, and is not a replica."""

import pytest

from launcher.schedulers.docker.labels import Labels
from tests.engines.images import SHELL_IMAGE


@pytest.fixture
def committed(scenario):
    """Make an image of a container, as `docker commit` does; returns its name."""
    name = f"launcher-test/{scenario.token}"

    def commit(container, **how):
        scenario.daemon.ask("POST", "/commit", {}, container=container.id, repo=name, **how)
        return name

    yield commit
    scenario.daemon.remove_image(name)


@pytest.fixture
def copied(scenario, committed):
    """The app id of a running job, and the id of a container that is a copy of its replica."""
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    [app_id] = scenario.apps()
    daemon, image = scenario.daemon, committed(scenario.container(app_id))
    body = {"Image": image, "Cmd": ["sleep", "2000"], "HostConfig": {"Init": True, "NetworkMode": "none"}}
    made = daemon.ask("POST", "/containers/create", body, name=f"{scenario.token}-copy")["Id"]
    daemon.ask("POST", f"/containers/{made}/start")
    yield app_id, made
    daemon.remove(one for one in scenario.things() if one.id == made)


def test_a_copy_of_a_replica_is_not_the_image_of_its_role(scenario, copied):
    assert "under this name now" not in scenario.plan("job.launcher.yaml")
    scenario.cancel("job")


def test_a_job_on_a_copied_image_inherits_no_label_of_the_app(scenario, committed):
    """Inherited labels would give the job an output folder, a time limit of 2 s and a role to wait for."""
    scenario.job("exec true", top="output: true\ntimeout: 1h", role="service: true")
    file = scenario.folder / "job.launcher.yaml"
    file.write_text(
        f"{file.read_text()}  other: {{image: '{SHELL_IMAGE}', run: 'true', depends_on: {{main: started}}}}\n"
    )
    scenario.apply(file, "--wait")
    made = scenario.container(*scenario.apps(), role="other")
    assert Labels(made.labels).timeout_s == 3600
    image = committed(made, changes="LABEL launcher.timeout-s=2")  # which the app itself might not keep
    scenario.apply(scenario.job("exec sleep 4", name="next", image=image), "--wait")
    shown = scenario.status("next")
    assert (shown["state"], shown["output"]) == ("SUCCEEDED", None)
    [app] = [each for each in scenario.apps() if each.startswith("next")]
    labels = Labels(scenario.container(app).labels)
    assert (labels.output, labels.timeout_s, labels.order) == ("", None, [])


def test_a_copy_is_no_replica_and_survives_the_end_of_the_app(scenario, copied):
    app_id, copy = copied
    assert scenario.status("job")["state"] == "RUNNING"
    scenario.job("exec sleep 3000")
    scenario.apply("job.launcher.yaml", "--allow-destructive")
    second = next(app for app in scenario.apps() if app != app_id)
    scenario.cancel("job")
    scenario.launcher("gc", "--older-than", "0", "-s", "local_docker")
    assert scenario.daemon.inspect(copy)["State"]["Running"]
    assert [one.id for one in scenario.containers()] == [copy]
    assert second not in scenario.apps()
