"""The body that the engine gets."""

import pytest

from launcher.schedulers.docker.request import build_request, with_gpus
from launcher.schedulers.docker.rules import options
from launcher.specs import AppDef, BindMount, DeviceMount, Resource, RetryPolicy, Role
from launcher.specs.secret import Secret
from tests.engines.images import SHELL_IMAGE

ROLE = Role(
    name="main", image=SHELL_IMAGE, entrypoint="sh", args=["-c", "true"], env={"A": "1=2"}, max_retries=2,
    retry_policy=RetryPolicy.REPLICA, resource=Resource(cpu=0.5, gpu=-1, memMB=64), port_map={"http": 8080},
    mounts=[BindMount("/tmp", "/host", read_only=True), DeviceMount("/dev/null", "/dev/nothing", "r")],
)  # fmt: skip


def container(role=ROLE, app_id="app-1", **cfg):
    return build_request(AppDef("app", [role]), options().resolve(cfg), app_id, session="s").containers[0]


def job(role):
    return build_request(AppDef("app", [role]), options().resolve({}), "app-1", session="s")


def test_the_body_of_a_container_has_every_field():
    body = container(user="0", workdir="/host", network="none").body()
    host = body.pop("HostConfig")
    body.pop("Env")
    assert body == {
        "Image": SHELL_IMAGE,
        "Cmd": ["sh", "-c", "true"],
        "Labels": {"launcher.role": "main", "launcher.replica": "0", "launcher.part": "replica"},
        "User": "0",
        "WorkingDir": "/host",
    }
    assert host == {
        "NetworkMode": "none",
        "Mounts": [
            {"Type": "volume", "Source": "app-1-scratch", "Target": "/launcher/scratch", "ReadOnly": False},
            {"Type": "bind", "Source": "/tmp", "Target": "/host", "ReadOnly": True},
        ],
        "Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/nothing", "CgroupPermissions": "r"}],
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2},
        "Memory": 64 * 2**20, "ShmSize": 64 * 2**20, "NanoCpus": 500_000_000, "Privileged": False,
        "Init": True,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "5"}},
    }  # fmt: skip


GPU_ROLE = Role("r", "i", entrypoint="x", num_replicas=2, resource=Resource(cpu=-1, gpu=2, memMB=-1))


@pytest.mark.parametrize("dealt", [(), ("0", "1", "4")])
def test_gpus_are_requested_by_count_where_too_few_were_dealt(dealt):
    made = with_gpus(job(GPU_ROLE), dealt)
    [last] = made.containers[-1].body()["HostConfig"]["DeviceRequests"]
    assert last == {"Count": 2, "Capabilities": [["compute", "utility"]]}


def test_gpus_that_were_dealt_are_requested_by_id():
    made = with_gpus(job(GPU_ROLE), ("0", "1", "4", "GPU-5"))
    requests = [each.body()["HostConfig"]["DeviceRequests"] for each in made.containers]
    capabilities = [["compute", "utility"]]
    assert requests == [
        [{"DeviceIDs": ["0", "1"], "Capabilities": capabilities}],
        [{"DeviceIDs": ["4", "GPU-5"], "Capabilities": capabilities}],
    ]


def test_an_edited_request_for_gpus_stays():
    edited = job(GPU_ROLE)
    given = {"count": -1, "capabilities": [["gpu"]]}
    edited.containers[0].kwargs["device_requests"] = [given]
    made = with_gpus(edited, ("0", "1"))
    assert made.containers[0].kwargs["device_requests"] == [given]
    assert made.containers[1].kwargs["device_requests"][0]["device_ids"] == ["0", "1"]


def test_memory_may_be_a_fraction_of_a_mebibyte():
    half = Role("r", "i", entrypoint="x", resource=Resource(cpu=-1, gpu=-1, memMB=8.5))
    assert container(half).body()["HostConfig"]["Memory"] == 8 * 2**20 + 2**19


def test_the_reference_of_a_secret_never_passes_for_its_value():
    secret = Role("r", "i", entrypoint="x", env={"KEY": Secret("env:API_KEY")})
    with pytest.raises(ValueError, match="the secret that KEY names was not read"):
        container(secret).body()
