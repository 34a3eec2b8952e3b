"""How replicas of a Docker app find each other: hosts in text and variables, by network."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.schedulers.checks import RejectedAppError
from launcher.schedulers.docker.job import DockerContainer, DockerJob
from launcher.schedulers.docker.names import container_name
from launcher.schedulers.docker.request import bind_request, build_request
from launcher.schedulers.docker.rules import options
from launcher.schedulers.docker.scheduler import DockerScheduler
from launcher.specs import AppDef, Probe, Role

SERVER = Role("server", "web:1", entrypoint="serve", service=True)
CLIENT = Role(
    "client",
    "web:1",
    entrypoint="ask",
    args=["http://$<role.server.host>:80/$<app_id>", "$<rank0_host>", "$$<rank0_host>"],
    env={"URL": "tcp://$<role.client.host>/$<replica_id>"},
)
APP = AppDef("web", [SERVER, CLIENT])
APP_ID = "web-1-abcde"


def request(app: AppDef = APP, app_id: str = APP_ID, **cfg: Any) -> DockerJob:
    return build_request(app, options().resolve(cfg), app_id, session="demo")


def client(job: DockerJob) -> DockerContainer:
    return job.containers[1]


def test_hosts_are_the_names_of_containers() -> None:
    made = client(request())
    assert made.command == [
        "ask",
        f"http://{APP_ID}-server-0:80/{APP_ID}",
        f"{APP_ID}-server-0",
        "$<rank0_host>",
    ]
    env = made.kwargs["environment"]
    assert env["URL"] == f"tcp://{APP_ID}-client-0/0"
    assert env["LAUNCHER_HOST_SERVER"] == env["LAUNCHER_RANK0_HOST"] == f"{APP_ID}-server-0"
    assert "LAUNCHER_HOST_CLIENT" not in env


@pytest.mark.parametrize("network", ["host", "container:other"])
def test_hosts_are_localhost_where_replicas_share_a_network(network: str) -> None:
    made = client(request(network=network))
    assert made.command[1:3] == [f"http://localhost:80/{APP_ID}", "localhost"]
    assert made.kwargs["environment"]["LAUNCHER_HOST_SERVER"] == "localhost"


def test_the_symbolic_request_leaves_hosts_open() -> None:
    symbolic = request(app_id="$<app_id>")
    assert client(symbolic).command[1] == "http://$<role.server.host>:80/$<app_id>"
    assert client(symbolic).kwargs["environment"]["LAUNCHER_HOST_SERVER"] == "$<app_id>-server-0"
    for app_id in ("web-1-a", "web-1-b"):
        assert bind_request(symbolic, app_id).containers == request(app_id=app_id).containers


def test_a_host_is_cut_as_the_name_of_its_container() -> None:
    app_id, role = "web-1-" + "a" * 60, "Some Server"
    roles = [Role(role, "i", entrypoint="x", service=True), Role("c", "i", entrypoint="$<rank0_host>")]
    app = AppDef("web", roles)
    made = request(app, app_id)
    name = container_name(app_id, role, 0)
    assert made.containers[0].name == name != f"{app_id}-{role}-0"
    assert client(made).command == [name]
    assert client(made).kwargs["environment"]["LAUNCHER_HOST_SOME_SERVER"] == name


def test_an_edited_network_and_an_edited_host_are_followed() -> None:
    job = request(app_id="$<app_id>")
    client(job).kwargs["network_mode"] = "host"
    job.containers[0].kwargs["environment"]["LAUNCHER_HOST_SERVER"] = "mine"
    made = bind_request(job, APP_ID)
    found = client(made)
    assert found.command[2] == found.kwargs["environment"]["LAUNCHER_HOST_SERVER"] == "localhost"
    assert made.containers[0].kwargs["environment"]["LAUNCHER_HOST_SERVER"] == "mine"


@pytest.mark.parametrize("network", ["none", "bridge", "default"])
def test_a_host_on_a_network_without_names_is_refused(network: str) -> None:
    with pytest.raises(RejectedAppError) as caught:
        request(network=network)
    message = str(caught.value)
    assert [line.split(":")[0].strip() for line in message.splitlines()[1:]] == [
        "roles.client.args.0",
        "roles.client.args.1",
        "roles.client.env.URL",
    ]
    assert f"`$<rank0_host>` has no value on the network `{network}`" in message


@pytest.mark.parametrize("network", ["none", "bridge"])
def test_a_variable_that_is_not_set_is_noted(network: str) -> None:
    job = request(AppDef("web", [SERVER, replace(CLIENT, args=[], env={})]), network=network)
    assert "LAUNCHER_HOST_SERVER" not in client(job).kwargs["environment"]
    assert any("LAUNCHER_HOST_SERVER is not set" in note for note in job.notes)


# -- probes that need a network ----------------------------------------------------------------------------

ELSEWHERE = ["tcp://10.0.0.7:2376", "ssh://me@gpu-server"]
HERE = ["", "unix:///var/run/docker.sock", "tcp://127.0.0.1:2375", "no address at all", "tcp://[::"]


def probed(probe: Probe) -> AppDef:
    return AppDef("web", [replace(SERVER, service=False, ready=probe)])


def problems(probe: Probe, **cfg: Any) -> list[str]:
    found = DockerScheduler("test").app_problems(probed(probe), options().resolve(cfg))
    return [".".join(map(str, each.path)) for each in found if "by `command`" in each.message]


@pytest.mark.parametrize("host", [*ELSEWHERE, *HERE])
def test_a_port_is_refused_at_an_engine_on_another_machine(host, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", host)
    is_refused = host in ELSEWHERE
    assert problems(Probe(port=80)) == ["roles.server.ready.port"] * is_refused
    assert problems(Probe(http="/", port=80)) == ["roles.server.ready.http"] * is_refused
    assert problems(Probe(command=("true",))) == problems(Probe(file="up")) == []


def test_a_dry_run_refuses_a_port_at_an_engine_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", ELSEWHERE[0])
    with pytest.raises(
        RejectedAppError, match=r"roles\.server\.ready\.port: the engine tcp://10\.0\.0\.7:2376"
    ):
        DockerScheduler("test").submit_dryrun(probed(Probe(port=80)), {})


def test_a_port_is_refused_without_a_network() -> None:
    assert problems(Probe(port=80), network="none") == ["roles.server.ready.port"]
    assert problems(Probe(port=80), network="host") == problems(Probe(file="up"), network="none") == []


@pytest.mark.parametrize("file", ["/dev/shm/up", "/proc/1/stat", "/tmp/../sys/up"])
def test_a_file_that_no_engine_sees_is_refused(file: str) -> None:
    assert problems(Probe(file=file)) == ["roles.server.ready.file"]


@pytest.mark.slow
def test_validate_shows_the_line_of_a_port_out_of_reach(scenario, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@gpu-server")
    role = "image: web:1, entrypoint: serve, "
    scenario.write(
        "a.launcher.yaml",
        f"version: 1\nname: a\nscheduler: local_docker\nroles:\n  r: {{{role}\n    ready: {{port: 80}}}}\n",
    )
    message = scenario.launcher("validate", "a.launcher.yaml", code=6).out
    assert "a.launcher.yaml:6:" in message
    assert "the engine ssh://me@gpu-server is on another machine" in message
