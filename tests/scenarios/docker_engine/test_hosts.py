"""Names and ports of replicas of a Docker app, on the networks of the engine."""

import socket
from collections.abc import Iterator

import pytest

from launcher.errors import StartError
from launcher.specs import AppDef, AppState, Probe
from tests.contract.conftest import DockerCase


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
