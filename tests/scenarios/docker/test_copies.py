"""A container of an image that `docker commit` made from a replica has its labels, and is not a replica."""

import pytest


@pytest.fixture
def copied(scenario):
    """A job that runs and a container that is a copy of its replica; the job's app id and the copy's id."""
    file = scenario.job("exec sleep 1000")
    scenario.apply(file)
    [app_id] = scenario.apps()
    daemon, replica = scenario.daemon, scenario.container(app_id)
    image = daemon.ask("POST", "/commit", {}, container=replica.id, repo=f"launcher-test/{scenario.token}")[
        "Id"
    ]
    body = {"Image": image, "Cmd": ["sleep", "2000"], "HostConfig": {"Init": True, "NetworkMode": "none"}}
    made = daemon.ask("POST", "/containers/create", body, name=f"{scenario.token}-copy")["Id"]
    daemon.ask("POST", f"/containers/{made}/start")
    yield app_id, made
    daemon.remove(one for one in scenario.things() if one.id == made)
    daemon.remove_image(f"launcher-test/{scenario.token}")


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
