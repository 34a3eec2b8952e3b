"""A dry run's request may be edited as with the Docker SDK: each edit reaches the engine, or is refused."""

from dataclasses import replace

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers.docker.job import REFUSED, job_labels
from launcher.schedulers.docker.request import bind_request, build_request, check_head
from launcher.schedulers.docker.rules import options
from launcher.specs import AppDef, Role

docker = pytest.importorskip("docker")
models = pytest.importorskip("docker.models.containers")
types = pytest.importorskip("docker.types")

APP = AppDef("app", [Role("main", "img", entrypoint="sh", args=["-c", "true"], num_replicas=2)])

VALUES = {
    "blkio_weight": 300,
    "blkio_weight_device": [{"Path": "/dev/sda", "Weight": 200}],
    "cap_add": ["SYS_PTRACE"], "cap_drop": ["NET_RAW"], "cgroup_parent": "/jobs", "cgroupns": "host",
    "cpu_count": 2, "cpu_percent": 50, "cpu_period": 100000, "cpu_quota": 50000, "cpu_rt_period": 1000,
    "cpu_rt_runtime": 500, "cpu_shares": 512, "cpuset_cpus": "0-1", "cpuset_mems": "0",
    "device_cgroup_rules": ["c 42:* rmw"], "device_read_bps": [{"Path": "/dev/sda", "Rate": 1000}],
    "device_read_iops": [{"Path": "/dev/sda", "Rate": 10}],
    "device_requests": [types.DeviceRequest(count=1, capabilities=[["gpu"]])],
    "device_write_bps": [{"Path": "/dev/sda", "Rate": 1000}],
    "device_write_iops": [{"Path": "/dev/sda", "Rate": 10}],
    "devices": ["/dev/fuse", "/dev/null:/dev/nothing", "/dev/zero:/dev/zero:r"],
    "dns": ["10.0.0.1"],
    "dns_opt": ["ndots:2"],
    "dns_search": ["example.org"],
    "domainname": "example.org",
    "entrypoint": "tini -- sh",
    "environment": ["A=1", "B=x=y"],
    "extra_hosts": {"db": "10.0.0.2", "a": "10.0.0.3"},
    "group_add": [44, "video"],
    "healthcheck": {"test": "true", "interval": 10**9},
    "hostname": "mine",
    "init": False,
    "ipc_mode": "host",
    "isolation": "hyperv",
    "kernel_memory": "64m",
    "labels": {"team": "vision"},
    "links": {"db": "database"},
    "log_config": types.LogConfig(type="local", config={"max-size": "1m"}),
    "mac_address": "02:42:ac:11:00:02",
    "mem_limit": "1.5g",
    "mem_reservation": "256m",
    "mem_swappiness": 0,
    "memswap_limit": -1,
    "mounts": [types.Mount("/data", "data", read_only=True),
        types.Mount("/t", None, type="tmpfs", tmpfs_size="1m")],
    "nano_cpus": 10**9,
    "network_disabled": True,
    "network_mode": "host",
    "oom_kill_disable": True,
    "oom_score_adj": 500,
    "pid_mode": "host",
    "pids_limit": 100,
    "privileged": True,
    "publish_all_ports": True,
    "read_only": True,
    "restart_policy": {"Name": "on-failure", "MaximumRetryCount": 2},
    "runtime": "nvidia",
    "security_opt": ["no-new-privileges"],
    "shm_size": "2gb",
    "stdin_open": True,
    "stop_signal": "SIGINT",
    "storage_opt": {"size": "10G"},
    "sysctls": {"net.core.somaxconn": 1024},
    "tmpfs": {"/run": "size=1m"},
    "ulimits": [types.Ulimit(name="nofile", soft=1024, hard=2048), {"name": "core", "soft": 0, "hard": 0}],
    "user": 1000,
    "userns_mode": "host",
    "uts_mode": "host",
    "volume_driver": "local",
    "volumes": {"/src": {"bind": "/dst", "mode": "ro"}, "named": {"bind": "/named"}},
    "volumes_from": ["other"],
    "working_dir": "/w",
}  # fmt: skip
"""A value for each parameter of the SDK's `containers.create` that a container of ours can have."""


def request(**edits):
    """Return a dry run's request whose first container was edited."""
    job = build_request(APP, options().resolve({}), session="s")
    job.containers[0].kwargs.update(edits)
    return job


def body(**edits):
    return bind_request(request(**edits), "app-1").containers[0].body()


def flat(body):
    host = body.pop("HostConfig")
    return {**body, **host}


def by_sdk(**kwargs):
    """Return the body that the SDK itself would send, without the fields for a client that attaches."""
    made = models._create_container_args({"image": "img", "command": None, "version": "1.43", **kwargs})
    found = flat(types.ContainerConfig("1.43", **made))
    return {
        name: found[name]
        for name in found
        if not name.startswith("Attach") and name not in ("StdinOnce", "Volumes")
    }


@pytest.mark.parametrize("word", VALUES)
def test_an_edit_reaches_the_engine_as_the_sdk_would_send_it(word):
    ours, theirs, plain = flat(body(**{word: VALUES[word]})), by_sdk(**{word: VALUES[word]}), by_sdk()
    changed = {name: value for name, value in theirs.items() if plain.get(name, ...) != value}
    assert changed
    for name, value in changed.items():
        assert contained(value, ours[name]), name


def contained(value, other):
    """Return whether `other` has all fields that the SDK sends; it may have variables and labels, too."""
    value, other = without_gaps(value), without_gaps(other)
    return other.items() >= value.items() if isinstance(value, dict) else other == value


def without_gaps(value):
    """Return the body without the fields that are left open."""
    if isinstance(value, list):
        return [without_gaps(each) for each in value]
    return {k: v for k, v in value.items() if v not in (None, "")} if isinstance(value, dict) else value


def test_every_parameter_of_the_sdk_is_known_or_refused_with_a_reason():
    known = {*models.RUN_CREATE_KWARGS, *models.RUN_HOST_CONFIG_KWARGS}
    assert known - VALUES.keys() - REFUSED.keys() - {"name"} == set()


def test_ports_can_be_edited():
    ports = {"80/tcp": 8080, 443: ("127.0.0.1", 8443), "53/udp": None, "9/tcp": [1, 2]}
    made = body(ports=ports)
    assert made["HostConfig"]["PortBindings"] == {
        "80/tcp": [{"HostIp": "", "HostPort": "8080"}],
        "443/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8443"}],
        "53/udp": [{"HostIp": "", "HostPort": ""}],
        "9/tcp": [{"HostIp": "", "HostPort": "1"}, {"HostIp": "", "HostPort": "2"}],
    }
    assert made["ExposedPorts"].keys() == made["HostConfig"]["PortBindings"].keys()


def test_an_unknown_word_is_refused_with_the_nearest():
    with pytest.raises(SchedulerError, match="`cap_ad`") as caught:
        bind_request(request(cap_ad=["X"]), "app-1")
    assert caught.value.hint == "did you mean `cap_add`?"


@pytest.mark.parametrize("word", sorted(REFUSED))
def test_a_parameter_that_our_containers_cannot_have_is_refused_with_the_reason(word):
    with pytest.raises(SchedulerError, match=f"cannot take `{word}`"):
        bind_request(request(**{word: True}), "app-1")


def test_a_value_of_another_form_is_refused_without_showing_it():
    with pytest.raises(SchedulerError, match="this `tmpfs`") as caught:
        body(tmpfs=7)
    assert "7" not in str(caught.value)
    with pytest.raises(SchedulerError, match="unknown key `propagation`"):
        body(mounts=[{"type": "bind", "source": "/a", "target": "/b", "propagation": "shared"}])


def test_a_command_may_be_text_and_macros_are_filled_in():
    job = request(entrypoint="sh -c", mounts=[types.Mount("/data", "$<app_id>-data")])
    job.containers[0].command = "echo '$<app_id> x'"
    assert "'$<app_id> x'" in str(job)
    made = bind_request(job, "app-1").containers[0].body()
    assert (made["Entrypoint"], made["Cmd"]) == (["sh", "-c"], ["echo", "app-1 x"])
    assert made["HostConfig"]["Mounts"][0]["Source"] == "app-1-data"


def test_an_edited_hostname_and_an_edited_rank0_host_stay():
    job = request(hostname="mine")
    job.containers[0].kwargs["environment"]["LAUNCHER_RANK0_HOST"] = "elsewhere"
    made = bind_request(job, "app-1").containers[0].body()
    assert made["Hostname"] == "mine"
    assert "LAUNCHER_RANK0_HOST=elsewhere" in made["Env"]


def test_a_network_without_names_takes_the_hostname_that_was_not_edited():
    made = body(network_mode="host")
    assert "Hostname" not in made
    assert "LAUNCHER_RANK0_HOST=localhost" in made["Env"]
    assert body(network="none")["HostConfig"]["NetworkMode"] == "none"


def test_names_and_labels_that_launcher_sets_cannot_be_edited():
    with pytest.raises(SchedulerError, match="name of a container"):
        bind_request(request(name="mine"), "app-1")
    with pytest.raises(SchedulerError, match="label `launcher"):
        bind_request(request(labels={"launcher.role": "other"}), "app-1")


def test_edits_of_the_request_of_the_job_are_followed_or_refused():
    job = replace(request(), timeout_s=9, grace_s=2.5)
    job.containers.pop()
    labels = job_labels(bind_request(job, "app-1"))
    assert labels == {"launcher.replicas": "1", "launcher.grace-s": "2.5", "launcher.timeout-s": "9"}
    check_head(job, request())
    for edit in (
        {"network": "host"}, {"handle": "x"}, {"app_id": "x"}, {"scratch": "x"}, {"role_retries": {}},
        {"role_rules": {"worker": {"retry_delay": 2}}},
    ):  # fmt: skip
        with pytest.raises(SchedulerError, match=f"`{next(iter(edit))}`"):
            check_head(replace(job, **edit), request())


def test_an_edited_request_can_be_printed():
    job = request(**VALUES)
    assert "cap_add:\n" in str(job)
    job.containers[0].kwargs["environment"] = ["API_TOKEN=abc", "PLAIN"]
    assert "abc" not in str(job)
