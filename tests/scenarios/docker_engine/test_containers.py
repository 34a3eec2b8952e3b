"""Ports, mounts, networks and limits of the containers of an app, seen from inside and from the engine."""

import http.client
import os
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import SchedulerError, StartError
from launcher.specs import AppState, BindMount, DeviceMount, Resource
from tests.contract.conftest import DockerCase
from tests.engines.docker import Daemon
from tests.waiting import PATIENCE_S

DEVICES = ("/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control")
"""Devices that no container has unless it is given them."""


def host_config(app_id: str) -> dict[str, Any]:
    """Return the host configuration of the first container of an app."""
    found: dict[str, Any] = Daemon().inspect(f"{app_id}-r-0")["HostConfig"]
    return found


def printed(case: DockerCase, script: str, **fields: Any) -> list[str]:
    """Run an app; return the output of its replicas, in order of their numbers."""
    cfg = fields.pop("cfg", {})
    app_id = case.start(case.app(script, **fields), **cfg)
    case.end(app_id)
    return [line for k in range(fields.get("replicas", 1)) for line in case.lines(app_id, k=k)]


def published(app_id: str) -> dict[str, Any]:
    return dict(Daemon().inspect(f"{app_id}-r-0")["NetworkSettings"]["Ports"])


def test_a_container_that_the_kernel_killed_for_memory_fails_with_that_reason(case: DockerCase) -> None:
    found = case.run(case.app("x=a; while :; do x=$x$x; done", resource=Resource(cpu=1, gpu=0, memMB=16)))
    assert (found.state, found.msg) == (AppState.FAILED, "r/0 was killed: out of memory")


def test_the_engine_chooses_an_ephemeral_port_that_only_this_machine_reaches(case: DockerCase) -> None:
    script = "mkdir /www; echo served >/www/index.html; exec busybox httpd -f -p 8080 -h /www"
    app_id = case.start(case.app(script, port_map={"http": 8080}))
    [bound] = published(app_id)["8080/tcp"]
    assert bound["HostIp"] == "127.0.0.1"
    assert bound["HostPort"] not in ("", "8080")
    assert _served(int(bound["HostPort"])) == b"served\n"


def _served(port: int) -> bytes:
    """Return the page of a server that may still be coming up behind the engine's proxy."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < deadline, "nothing serves the port"
            time.sleep(0.02)
        finally:
            connection.close()


def test_a_taken_fixed_port_is_named_and_leaves_no_app(case, launcher_home):
    first = case.start(case.app("exec sleep 1000", port_map={"http": 8080}))
    [bound] = published(first)["8080/tcp"]
    port = int(bound["HostPort"])
    with pytest.raises(StartError, match=rf"cannot start r/0: .*{port}") as caught:
        case.start(case.app("exec sleep 1000", port_map={"http": port}), ports="fixed")
    assert "sleep 1000" in str(caught.value)
    assert [each.app_id for each in case.listed()] == [first]
    assert os.listdir(launcher_home / "docker" / "apps") == [first]


def test_a_read_only_mount_cannot_be_written(case: DockerCase, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("text\n")
    mounts = [BindMount(str(tmp_path / "given"), "/given", read_only=True)]
    out = printed(case, "cat /given/file; touch /given/new 2>/dev/null || echo refused", mounts=mounts)
    assert out == ["text\n", "refused\n"]
    assert os.listdir(tmp_path / "given") == ["file"]


def test_a_mounted_device_has_the_given_permissions(case: DockerCase) -> None:
    device = next((path for path in DEVICES if os.path.exists(path)), None)
    if device is None:
        pytest.skip(f"there is none of {', '.join(DEVICES)}")
    script = "(exec 3</dev/given) && echo read; (exec 3<>/dev/given) && echo write; test -e /dev/given"
    given = printed(case, script, mounts=[DeviceMount(device, "/dev/given", "rw")])
    assert [line for line in given if line in ("read\n", "write\n")] == ["read\n", "write\n"]
    narrow = printed(case, script, mounts=[DeviceMount(device, "/dev/given", "r")])
    assert [line for line in narrow if line in ("read\n", "write\n")] == ["read\n"]


def test_a_user_without_rights_shares_the_scratch_folder(case: DockerCase) -> None:
    script = """
        id -u
        cd "$LAUNCHER_SCRATCH"
        if [ $<replica_id> = 0 ]; then echo hello >new && mv new file
        else until [ -e file ]; do sleep 0.05; done; cat file; fi
    """
    out = printed(case, script, replicas=2, cfg={"user": "1234:1234"})
    assert out == ["1234\n", "1234\n", "hello\n"]


def test_replicas_on_the_network_of_the_host_reach_each_other_on_localhost(case: DockerCase) -> None:
    script = "readlink /proc/self/ns/net; echo $LAUNCHER_RANK0_HOST"
    first, where, second, _ = printed(case, script, replicas=2, cfg={"network": "host"})
    assert first == second
    assert where == "localhost\n"


def test_gpus_that_the_engine_lacks_are_refused_and_leave_no_container(case, launcher_home):
    with pytest.raises(StartError, match="cannot start r/0: ") as caught:
        case.start(case.app("true", replicas=2, resource=Resource(cpu=1, gpu=999, memMB=64)))
    assert "GPU" in (caught.value.hint or "")
    assert case.rests_of(launcher_home) == []


def test_the_log_of_a_container_is_bounded_by_its_options(case: DockerCase) -> None:
    app_id = case.start(case.app("seq 1 20000"), log_max_size="10k", log_max_files=2)
    case.end(app_id)
    config = host_config(app_id)["LogConfig"]
    assert config == {"Type": "json-file", "Config": {"max-size": "10k", "max-file": "2"}}
    kept = case.lines(app_id)
    assert 10 < len(kept) < 1000
    assert kept[-1] == "20000\n"


@pytest.mark.parametrize(("entrypoint", "cfg"), [
    ("no-such-command", {}), ("/no/such/command", {}), ("./sh", {"workdir": "/etc"}), ("/etc/passwd", {}),
    ("/etc", {}),
])  # fmt: skip
def test_a_missing_executable_is_found_before_any_container_starts(case, launcher_home, entrypoint, cfg):
    app = case.app()
    app.roles[0].entrypoint = entrypoint
    with pytest.raises(StartError, match=f"cannot start r/0: there is no executable `{entrypoint}`"):
        case.start(app, **cfg)
    assert case.rests_of(launcher_home) == []


@pytest.mark.parametrize(("entrypoint", "cfg"), [("./sh", {"workdir": "/bin"}), ("bin/sh", {"workdir": "/"})])
def test_a_relative_executable_is_searched_from_the_working_folder(case, entrypoint, cfg):
    app = case.app("exit 0")
    app.roles[0].entrypoint = entrypoint
    assert case.run(app, **cfg).state is AppState.SUCCEEDED


def test_an_edited_dry_run_runs_as_edited(case: DockerCase) -> None:
    types = pytest.importorskip("docker.types")
    info = case.scheduler.submit_dryrun(case.app("true", replicas=2), {"user": "1000"})
    info.request.grace_s = 3.5
    container, _ = info.request.containers
    container.command = (
        "sh -c 'id -u; hostname; echo $EXTRA; touch /x || echo kept; touch $LAUNCHER_SCRATCH/a /t/b'"
    )
    container.kwargs["environment"]["EXTRA"] = "of $<app_id>"
    edits = {"read_only": True, "hostname": "mine", "network_mode": "none", "cap_drop": ["ALL"]}
    container.kwargs |= edits
    container.kwargs["mounts"].append(types.Mount("/t", None, type="tmpfs", tmpfs_mode=0o1777))
    app_id = case.scheduler.schedule(info)
    assert case.end(app_id).state == AppState.SUCCEEDED
    printed = [line.strip() for line in case.lines(app_id)]
    assert [line for line in printed if "touch" not in line] == ["1000", "mine", f"of {app_id}", "kept"]
    assert Daemon().inspect(f"{app_id}-r-0")["Config"]["Labels"]["launcher.grace-s"] == "3.5"


def test_read_only_containers_of_a_user_without_rights_are_refused(case: DockerCase) -> None:
    info = case.scheduler.submit_dryrun(case.app("true"), {"user": "1000"})
    info.request.containers[0].kwargs["read_only"] = True
    with pytest.raises(SchedulerError, match="every container is `read_only`"):
        case.scheduler.schedule(info)
    assert case.listed() == []
