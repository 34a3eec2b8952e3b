"""Which engine is meant, and the ways to it: DOCKER_HOST, contexts, TLS, ssh."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from launcher.schedulers.docker.client.contexts import DEFAULT_HOST, Endpoint, endpoint
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import EngineUnreachable
from tests.engines import require
from tests.engines.docker import Daemon
from tests.unit.docker.fake_engine import FakeEngine, reply


def _context(config: Path, name: str, host: str, **more: object) -> Path:
    """A context as `docker context create` lays it down; returns the folder for its TLS files."""
    key = sha256(name.encode()).hexdigest()
    meta = config / "contexts" / "meta" / key
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(
        json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host, **more}}})
    )
    return config / "contexts" / "tls" / key / "docker"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "u" / ".docker"
    folder.mkdir(parents=True)
    return folder


def _of(config: Path, **environ: str) -> Endpoint:
    return endpoint({"HOME": str(config.parent), **environ})


def test_without_anything_it_is_the_usual_socket(config: Path):
    assert _of(config) == (DEFAULT_HOST, {})
    assert _of(config, DOCKER_CONTEXT="default") == (DEFAULT_HOST, {})


def test_the_host_wins_over_the_context_and_that_over_the_configured_one(config: Path):
    _context(config, "far", "tcp://far:1")
    _context(config, "near", "unix:///near.sock")
    (config / "config.json").write_text('{"currentContext": "near"}')
    assert _of(config).host == "unix:///near.sock"
    assert _of(config, DOCKER_CONTEXT="far").host == "tcp://far:1"
    assert _of(config, DOCKER_CONTEXT="default").host == DEFAULT_HOST
    assert _of(config, DOCKER_CONTEXT="far", DOCKER_HOST="unix:///x").host == "unix:///x"


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


def test_a_broken_configuration_is_said_with_its_path(config: Path):
    (config / "config.json").write_text("{")
    with pytest.raises(EngineUnreachable, match=r"cannot read .*config\.json"):
        _of(config)


def test_what_the_docker_command_writes_is_what_is_read(config: Path):
    require("docker")
    environ = {"HOME": str(config.parent), "PATH": os.environ["PATH"]}
    create = ["docker", "context", "create", "mine", "--docker", f"host={Daemon().host}"]
    subprocess.run(create, env=environ, check=True, capture_output=True)
    subprocess.run(["docker", "context", "use", "mine"], env=environ, check=True, capture_output=True)
    engine = connect(environ={"HOME": str(config.parent)})
    assert engine.host == Daemon().host
    assert engine.engine_id()
    engine.close()


def test_verified_tls_without_its_files_names_the_first_missing_one(config: Path, tmp_path: Path):
    with pytest.raises(EngineUnreachable, match=r"no .*ca\.pem") as caught:
        _of(config, DOCKER_HOST="tcp://h:2376", DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(tmp_path))
    assert "DOCKER_CERT_PATH" in (caught.value.hint or "")


def _certificates(folder: Path) -> Path:
    """ca.pem, cert.pem and key.pem: one certificate for 127.0.0.1 that vouches for itself."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    return folder


def _tls_engine(certificates: Path) -> FakeEngine:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    tls.load_verify_locations(certificates / "ca.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    return FakeEngine(None, lambda *_: reply(200, "[]"), tls)


@pytest.mark.skipif(
    not shutil.which("openssl"), reason="there is no `openssl` command to make certificates with"
)
def test_an_engine_behind_tls_is_reached_by_environment_and_by_context(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(_certificates(tmp_path / "others") / "ca.pem"))
    certificates = _certificates(tmp_path / "certs")
    fake = _tls_engine(certificates)
    host = f"tcp://127.0.0.1:{fake.port}"
    shutil.copytree(certificates, _context(config, "far", host))
    by_environment = {"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certificates)}
    try:
        for environ in (by_environment, {"HOME": str(config.parent), "DOCKER_CONTEXT": "far"}):
            engine = connect(environ=environ)
            assert engine.containers() == []
            assert engine.host == host
            stream = engine.events()
            stream.close()
            engine.close()
    finally:
        fake.close()


@pytest.mark.skipif(
    not shutil.which("openssl"), reason="there is no `openssl` command to make certificates with"
)
def test_an_engine_that_we_do_not_trust_is_not_talked_to(tmp_path: Path):
    fake = _tls_engine(_certificates(tmp_path / "theirs"))
    ours = _certificates(tmp_path / "ours")
    environ = {
        "DOCKER_HOST": f"tcp://127.0.0.1:{fake.port}",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(ours),
    }
    engine = connect(environ=environ)
    try:
        with pytest.raises(EngineUnreachable, match="TLS handshake") as caught:
            engine.containers()
    finally:
        engine.close()
        fake.close()
    assert "DOCKER_CERT_PATH" in (caught.value.hint or "")
    assert fake.asked == []


def _ssh(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{script}\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_an_engine_is_reached_through_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    require("docker")
    _ssh(tmp_path / "bin", "unset DOCKER_HOST; exec docker system dial-stdio", monkeypatch)
    engine = connect(environ={"DOCKER_HOST": "ssh://me@far:2222"})
    try:
        assert engine.engine_id() == connect_here_id()
        stream = engine.events()
        stream.close()
        assert engine.containers("launcher.session=nobody") == []
    finally:
        engine.close()
    asked = (tmp_path / "bin" / "asked").read_text().splitlines()
    assert set(asked) == {"-T -o ConnectTimeout=30 -l me -p 2222 -- far docker system dial-stdio"}


def connect_here_id() -> str:
    engine = connect(readonly=True)
    try:
        return engine.engine_id()
    finally:
        engine.close()


def test_what_ssh_says_is_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _ssh(tmp_path / "bin", "echo 'me@far: Permission denied (publickey).' >&2; exit 255", monkeypatch)
    engine = connect(environ={"DOCKER_HOST": "ssh://me@far"})
    try:
        with pytest.raises(
            EngineUnreachable, match=r"ssh://me@far: me@far: Permission denied \(publickey\)\."
        ) as caught:
            engine.containers()
    finally:
        engine.close()
    assert "docker --host ssh://me@far version" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["ssh://-oProxyCommand=x", "ssh://", "ssh:///path", "ssh://a@-x"])
def test_an_ssh_host_is_never_an_option_of_ssh(name: str):
    with pytest.raises(EngineUnreachable):
        connect(environ={"DOCKER_HOST": name})
