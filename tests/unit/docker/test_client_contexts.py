"""Which engine is meant, and the ways to it: DOCKER_HOST, contexts, TLS, ssh."""

import json
import os
import re
import shutil
import ssl
import subprocess
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from launcher.schedulers.docker import DEFAULT_HOST, has_no_socket
from launcher.schedulers.docker.client.configuration import Endpoint, endpoint
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from tests.engines import require
from tests.engines.docker import Daemon
from tests.engines.port import tunnels
from tests.unit.docker.fake_engine import NEEDS_OPENSSL, FakeEngine, certificates, reply, server_tls


def _context(config: Path, name: str, host: str, **more: object) -> Path:
    """Write a context as `docker context create` does; return the folder for its TLS files."""
    meta = _meta(config, name)
    meta.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host, **more}}}))
    return config / "contexts" / "tls" / meta.parent.name / "docker"


def _meta(config: Path, name: str) -> Path:
    """Return the file of a context, in its folder."""
    folder = config / "contexts" / "meta" / sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    return folder / "meta.json"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "u" / ".docker"
    folder.mkdir(parents=True)
    return folder


def _of(config: Path, **environ: str) -> Endpoint:
    return endpoint({"HOME": str(config.parent), **environ})


def test_an_engine_cannot_answer_without_the_socket_that_its_address_names(config, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)

    def is_missing(host: str) -> bool:
        monkeypatch.setenv("DOCKER_HOST", host)
        return has_no_socket()

    there, gone = tmp_path / "d.sock", tmp_path / "none.sock"
    there.touch()
    assert is_missing(f"unix://{gone}")
    assert not is_missing(f"unix://{there}")
    assert not is_missing(f"unix://{tmp_path}/%6eone.sock")  # an encoded path is read by the client
    assert not is_missing("tcp://127.0.0.1:1")
    (config / "contexts").mkdir()
    assert not is_missing("")  # a context may name another engine


@pytest.mark.parametrize(("host", "context", "current", "found"), [
    ("", "", "", DEFAULT_HOST), ("", "default", "", DEFAULT_HOST), ("", "", "near", "unix:///near.sock"),
    ("", "far", "near", "tcp://far:1"), ("", "default", "near", DEFAULT_HOST),
    ("unix:///x", "far", "near", "unix:///x"), (" unix:///x\n", "", "", "unix:///x"),
    (" ", "", "", DEFAULT_HOST),
])  # fmt: skip
def test_docker_host_wins_over_docker_context_which_wins_over_the_configured_context(
    config: Path, host: str, context: str, current: str, found: str
):
    _context(config, "far", "tcp://far:1")
    _context(config, "near", "unix:///near.sock")
    (config / "config.json").write_text(json.dumps({"currentContext": current} if current else {}))
    given = {"DOCKER_HOST": host, "DOCKER_CONTEXT": context}
    assert _of(config, **{name: text for name, text in given.items() if text}) == (found, {})


def test_the_configuration_may_lie_elsewhere(config: Path, tmp_path: Path):
    _context(tmp_path / "c", "far", "tcp://far:1")
    assert _of(config, DOCKER_CONTEXT="far", DOCKER_CONFIG=str(tmp_path / "c")).host == "tcp://far:1"


def test_an_unknown_context_names_the_known_ones(config: Path):
    _context(config, "near", "unix:///near.sock")
    with pytest.raises(EngineUnreachable, match="DOCKER_CONTEXT is `nearr`") as caught:
        _of(config, DOCKER_CONTEXT="nearr")
    assert "near" in (caught.value.hint or "")
    (config / "config.json").write_text('{"currentContext": "gone"}')
    with pytest.raises(EngineUnreachable, match="currentContext is `gone`"):
        _of(config)


def test_a_broken_configuration_is_reported_with_its_path(config: Path):
    (config / "config.json").write_text("{")
    with pytest.raises(EngineUnreachable, match=r"cannot read .*config\.json"):
        _of(config)


@pytest.mark.parametrize(("configuration", "meta"), [
    ('{"currentContext": 5}', "{}"), ('{"currentContext": "\\ud800"}', "{}"), ("[" * 100_000, "{}"),
    ('{"currentContext": "near"}', '{"Endpoints": []}'),
    ('{"currentContext": "near"}', '{"Endpoints": {"docker": "unix:///x"}}'),
    ('{"currentContext": "near"}', '{"Endpoints": {"docker": {"Host": 5}}}'),
    ('{"currentContext": "near"}', "["),
])  # fmt: skip
def test_a_configuration_of_another_form_is_an_error_of_the_address(config, configuration, meta):
    _meta(config, "near").write_text(meta)
    (config / "config.json").write_text(configuration)
    with pytest.raises(EngineUnreachable):
        _of(config)


def test_a_missing_context_is_named_although_another_one_is_broken(config: Path):
    _context(config, "near", "unix:///near.sock")
    _meta(config, "broken").write_text("[")
    with pytest.raises(EngineUnreachable, match="DOCKER_CONTEXT is `gone`") as caught:
        _of(config, DOCKER_CONTEXT="gone")
    assert "known: near" in (caught.value.hint or "")


def test_a_configuration_that_is_a_pipe_is_not_waited_for(config: Path):
    os.mkfifo(config / "config.json")
    with pytest.raises(EngineUnreachable, match=r"cannot read .*config\.json"):
        _of(config)


def test_the_socket_of_an_address_has_an_absolute_path(config: Path):
    with pytest.raises(EngineUnreachable, match=r"DOCKER_HOST is `unix://x\.sock`, which is not the address"):
        _of(config, DOCKER_HOST="unix://x.sock")


def test_a_context_that_the_docker_command_wrote_is_read(config: Path):
    require("docker")
    environ = {"HOME": str(config.parent), "PATH": os.environ["PATH"]}
    create = ["docker", "context", "create", "mine", "--docker", f"host={Daemon().host}"]
    subprocess.run(create, env=environ, check=True, capture_output=True)
    subprocess.run(["docker", "context", "use", "mine"], env=environ, check=True, capture_output=True)
    with closing(connect(environ={"HOME": str(config.parent)})) as engine:
        assert engine.host == Daemon().host
        assert engine.engine_id()


def test_verified_tls_without_its_files_names_the_first_missing_one(config: Path, tmp_path: Path):
    with pytest.raises(EngineUnreachable, match=r"no .*ca\.pem") as caught:
        _of(config, DOCKER_HOST="tcp://h:2376", DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(tmp_path))
    assert "DOCKER_CERT_PATH" in (caught.value.hint or "")


def _engine(tls: ssl.SSLContext | None = None) -> closing[FakeEngine]:
    """Return a context with an engine at a port, on which no container is."""
    return closing(FakeEngine(None, lambda *_: reply(200, "[]"), tls))


def _tls(host: str, folder: Path) -> dict[str, str]:
    return {"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)}


def _listed(host: str, **environ: str) -> list[Container]:
    """Return the containers of an engine as a client of its own lists them."""
    with closing(connect(environ={"DOCKER_HOST": host, **environ})) as engine:
        return engine.containers()


@pytest.mark.slow
@NEEDS_OPENSSL
def test_an_engine_behind_tls_is_reached_by_environment_and_by_context(config, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates(tmp_path / "others") / "ca.pem"))
    ours = certificates(tmp_path / "certs")
    with _engine(server_tls(ours)) as fake:
        host = f"tcp://127.0.0.1:{fake.port}"
        shutil.copytree(ours, _context(config, "far", host))
        for environ in (_tls(host, ours), {"HOME": str(config.parent), "DOCKER_CONTEXT": "far"}):
            with closing(connect(environ=environ)) as engine:
                assert engine.containers() == []
                assert engine.host == host
                engine.events().close()


@NEEDS_OPENSSL
@pytest.mark.parametrize("host", ["tcp://localhost:{}", "https://127.0.0.1:{}"])
def test_a_certificate_for_another_host_or_of_an_unknown_authority_is_refused(tmp_path: Path, host: str):
    ours = certificates(tmp_path / "ours")
    with _engine(server_tls(ours)) as fake:
        address = host.format(fake.port)
        environ = _tls(address, ours) if host.startswith("tcp") else {"DOCKER_HOST": address}
        with (
            closing(connect(environ=environ)) as engine,
            pytest.raises(EngineUnreachable, match=r"TLS handshake.*CERTIFICATE_VERIFY_FAILED") as caught,
        ):
            engine.containers()
    assert "DOCKER_CERT_PATH" in (caught.value.hint or "")
    assert fake.asked == []


@pytest.mark.slow
@NEEDS_OPENSSL
def test_a_key_that_wants_a_password_is_refused_without_asking_for_it(tmp_path: Path):
    ours = certificates(tmp_path / "ours", "-passout", "pass:secret")
    with pytest.raises(EngineUnreachable, match="cannot use the Docker engine at tcp://h:2376"):
        connect(environ=_tls("tcp://h:2376", ours))


@NEEDS_OPENSSL
@pytest.mark.parametrize("name", ["ca.pem", "cert.pem", "key.pem"])
def test_a_broken_certificate_is_named_with_the_settings_that_lead_to_it(tmp_path: Path, name: str):
    ours = certificates(tmp_path / "ours")
    (ours / name).write_text("no certificate")
    with pytest.raises(EngineUnreachable, match=re.escape(str(ours / name))) as caught:
        connect(environ=_tls("tcp://h:2376", ours))
    assert all(word in (caught.value.hint or "") for word in ("DOCKER_CERT_PATH", "context", name))


def test_an_address_may_have_a_path_and_requests_name_its_host():
    with _engine() as fake:
        assert _listed(f"tcp://127.0.0.1:{fake.port}/engines/a/") == []
    assert fake.asked == ["GET /engines/a/_ping", "GET /engines/a/v1.41/containers/json?all=1"]
    assert {each["host"] for each in fake.headers} == {f"127.0.0.1:{fake.port}"}


@pytest.mark.parametrize("host", ["tcp://u@h:1", "tcp://h:1?x", "tcp://h:1#x", f"tcp://{'h' * 64}:1"])
def test_an_address_of_a_port_has_a_host_a_port_and_a_path(host: str):
    with pytest.raises(EngineUnreachable, match="cannot use the Docker engine at"):
        connect(environ={"DOCKER_HOST": host})


def test_an_engine_elsewhere_is_asked_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    with _engine() as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        assert _listed("tcp://engine.test:2375") == []
    assert proxy.asked[0] == "GET http://engine.test:2375/_ping"
    assert {each["host"] for each in proxy.headers} == {"engine.test:2375"}
    assert {each["proxy-authorization"] for each in proxy.headers} == {"Basic bWU6cEBzcw=="}


@NEEDS_OPENSSL
def test_tls_goes_through_a_tunnel_of_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ours = certificates(tmp_path / "ours")
    heads = list[str]()
    tls = {"DOCKER_TLS": "1", "DOCKER_CERT_PATH": str(ours)}  # not verified: it is not engine.test's
    with _engine(server_tls(ours)) as fake, tunnels(fake.port, heads) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:x@127.0.0.1:{port}")
        assert _listed("tcp://engine.test:2376", **tls) == []
    assert heads[0].startswith("CONNECT engine.test:2376 HTTP/1.")
    assert "Proxy-Authorization: Basic bWU6eA==" in heads[0]
    assert fake.asked[0] == "GET /_ping"
    assert all("proxy-authorization" not in each for each in fake.headers)


@pytest.mark.parametrize("exempt", ["", "127.0.0.1", "*"])
def test_an_engine_of_this_machine_needs_no_proxy(monkeypatch: pytest.MonkeyPatch, exempt: str):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", exempt)
    with _engine() as fake:
        assert _listed(f"tcp://127.0.0.1:{fake.port}") == []


def test_a_proxy_that_does_not_speak_http_is_an_error_and_no_proxy_avoids_it(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@proxy.test:1080")
    with pytest.raises(EngineUnreachable, match="is not an HTTP proxy") as caught:
        connect(environ={"DOCKER_HOST": "tcp://engine.test:2375"})
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("NO_PROXY", ".test")
    connect(environ={"DOCKER_HOST": "tcp://engine.test:2375"}).close()


def _ssh(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{script}\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_an_engine_is_reached_through_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    require("docker")
    there = f"unix://{Daemon().socket_path}"
    _ssh(tmp_path / "bin", f"unset DOCKER_HOST; exec docker --host {there} system dial-stdio", monkeypatch)
    with (
        closing(connect(environ={"DOCKER_HOST": "ssh://me@far:2222"})) as engine,
        closing(connect(readonly=True)) as here,
    ):
        assert engine.engine_id() == here.engine_id()
        engine.events().close()
        assert engine.containers("launcher.session=none") == []
    asked = (tmp_path / "bin" / "asked").read_text().splitlines()
    alive = "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
    assert set(asked) == {f"-T -o ConnectTimeout=30 {alive} -l me -p 2222 -- far docker system dial-stdio"}


def test_the_error_has_the_message_of_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _ssh(tmp_path / "bin", "echo 'me@far: Permission denied (publickey).' >&2; exit 255", monkeypatch)
    denied = r"ssh://me@far: me@far: Permission denied \(publickey\)\."
    with pytest.raises(EngineUnreachable, match=denied) as caught:
        _listed("ssh://me@far")
    assert "docker --host ssh://me@far version" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["ssh://-oProxyCommand=x", "ssh://", "ssh:///path", "ssh://a@-x"])
def test_an_ssh_host_is_never_an_option_of_ssh(name: str):
    with pytest.raises(EngineUnreachable):
        connect(environ={"DOCKER_HOST": name})
