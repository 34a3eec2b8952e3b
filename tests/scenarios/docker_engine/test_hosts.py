"""Names and ports of replicas of a Docker app, on the networks of the engine."""

import socket
from collections.abc import Iterator

import pytest

from launcher.errors import StartError
from launcher.schedulers.docker.client.errors import NotFound
from launcher.specs import AppDef, AppState, Probe
from tests.contract.conftest import DockerCase
from tests.scenarios.docker_engine.bench import Bench


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def test_an_app_whose_port_on_the_host_is_taken_is_refused_with_the_port_named(case, taken):
    server = case.role("server", "sleep 1000", service=True, ready=Probe(port=taken))
    app = AppDef("app", [case.role("main", "sleep 1000"), server])
    with pytest.raises(StartError, match=f"cannot start server/0: port {taken} is in use by another process"):
        case.start(app, network="host")
    assert case.listed() == []


def test_an_app_whose_port_on_the_host_is_taken_later_has_failed(case: DockerCase, taken: int) -> None:
    needs = {"depends_on": {"first": "succeeded"}}
    server = case.role("server", "sleep 1000", service=True, ready=Probe(port=taken), **needs)
    roles = [case.role("first", "true"), server, case.role("main", "sleep 1000")]
    found = case.run(AppDef("app", roles), network="host")
    assert found.state is AppState.FAILED
    assert found.msg.startswith(f"server/0 could not be started: port {taken} is in use by another process")


def test_a_port_that_is_taken_on_the_host_is_free_in_a_network(case: DockerCase, taken: int) -> None:
    serve = f"exec nc -ll -p {taken} -e true"
    server = case.role("server", serve, service=True, ready=Probe(port=taken))
    client = case.role("client", f"nc $<role.server.host> {taken}", depends_on={"server": "ready"})
    assert case.run(AppDef("app", [client, server])).state is AppState.SUCCEEDED


@pytest.fixture
def shared(own: Bench) -> str:
    """The name of a shared network that is this test's alone."""
    return f"{own.token}-net"


def on(own: Bench, name: str, *command: str, k: int = 0) -> str:
    return own.create(*command, k=k, HostConfig={"NetworkMode": name})


def test_containers_that_ran_before_find_each_other_on_the_new_network(own: Bench, shared: str) -> None:
    own.engine.ensure_network(shared, own.labels())
    made = [
        on(own, shared, "sh", "-c", "test -e /ran || { touch /ran; exit 3; }; exec sleep 1000", k=k)
        for k in (0, 1)
    ]
    for each in made:
        own.engine.start_on(shared, own.labels(), each)
        assert own.ended(each).exit_code == 3
    own.engine.remove_network(shared)
    for each in made:
        own.engine.start_on(shared, own.labels(), each)
    asking = on(own, shared, "ping", "-c", "1", own.name(0), k=2)
    own.engine.start_on(shared, own.labels(), asking)
    assert own.ended(asking).exit_code == 0


def test_a_removed_foreign_network_is_not_made_again(own: Bench, shared: str) -> None:
    theirs = f"{own.token}-theirs"
    own.engine.ensure_network(theirs, own.labels())
    own.engine.remove_network(theirs)
    made = on(own, theirs, "true")
    with pytest.raises(NotFound, match=theirs):
        own.engine.start_on(shared, own.labels(), made)
    assert own.engine.networks(own.label) == []


def test_a_start_takes_one_of_two_networks_that_two_clients_made_at_once(own: Bench, shared: str) -> None:
    own.engine.ensure_network(shared, own.labels())
    body = {"Name": shared, "CheckDuplicate": False, "Labels": own.labels()}
    own.engine._wire.send("POST", "/networks/create", "create a twin", json=body)
    made = on(own, shared, "true")
    own.engine.start_on(shared, own.labels(), made)
    assert own.ended(made).exit_code == 0
    assert len(own.engine.networks(own.label)) == 1
