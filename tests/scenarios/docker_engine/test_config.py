"""The engine takes the request bodies of containers as launcher means them."""

import contextlib

import pytest

from launcher.schedulers.docker.labels import read_labels
from launcher.schedulers.docker.request import bind_request, build_request
from launcher.schedulers.docker.rules import options
from launcher.specs import AppDef
from tests.engines import require
from tests.unit.docker.test_config import ROLE


@pytest.fixture
def made(token):
    """A function that creates containers through the Docker SDK; they are removed after the test."""
    require("docker")
    import docker

    with contextlib.ExitStack() as after:
        client = docker.from_env()
        after.callback(client.close)

        def make(role=ROLE, edits=None, **cfg):
            job = build_request(AppDef("app", [role]), options().resolve(cfg), session="s")
            job.containers[0].kwargs.update(edits or {})
            each = bind_request(job, token).containers[0]
            body = each.body()
            found = client.api.create_container_from_config(body, each.name)["Id"]
            after.callback(client.api.remove_volume, f"{token}-scratch")
            after.callback(client.api.remove_container, found, force=True, v=True)
            return client.api.inspect_container(found)

        yield make


def test_the_engine_takes_each_field_of_the_body(made, token):
    seen = made(network="bridge")
    host = seen["HostConfig"]
    assert (seen["Name"], seen["Config"]["Hostname"]) == (f"/{token}-main-0", f"{token}-main-0")
    assert seen["Config"]["Cmd"] == ["sh", "-c", "true"]
    assert "A=1=2" in seen["Config"]["Env"]
    assert (host["Memory"], host["ShmSize"], host["NanoCpus"]) == (64 * 2**20, 64 * 2**20, 500_000_000)
    assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 2}
    assert host["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "5", "max-size": "100m"}}
    assert (host["Init"], host["Privileged"]) == (True, False)
    writable = {mount["Destination"]: mount["RW"] for mount in seen["Mounts"]}
    assert writable == {"/host": False, "/launcher/scratch": True}
    assert [each["PathInContainer"] for each in host["Devices"]] == ["/dev/nothing"]
    assert read_labels(seen["Config"]["Labels"]) is None  # the app's own labels come with the submission
