"""Without the Python package `docker`: what works, and what is said where it is needed."""

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.docker.client import configuration
from launcher.schedulers.docker.client.configuration import registry_of
from launcher.schedulers.docker.client.errors import EngineError
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE, make_images
from tests.engines.port import engine_port
from tests.unit.docker.fake_engine import NEEDS_OPENSSL, certificates, fake_engine, reply, server_tls


@pytest.fixture
def _hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package cannot be imported in this process."""
    monkeypatch.setitem(sys.modules, "docker", None)


@contextlib.contextmanager
def _reached_by(way: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment that leads to the engine by its socket, by a port, or by a port with TLS."""
    if way == "socket":
        yield {}
        return
    with engine_port(server_tls(certificates(folder)) if way == "TLS" else None) as port:
        tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)} if way == "TLS" else {}
        yield {"DOCKER_HOST": f"tcp://127.0.0.1:{port}", **tls}


def _launcher(*args: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command in a process where the package cannot be imported."""
    script = "import sys; sys.modules['docker'] = None\nfrom launcher.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environ},
        timeout=100,
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.usefixtures("launcher_home")
@pytest.mark.parametrize("way", ["socket", "port", pytest.param("TLS", marks=NEEDS_OPENSSL)])
def test_a_job_is_planned_applied_read_and_removed(tmp_path: Path, token: str, way: str) -> None:
    make_images(SHELL_IMAGE)
    with _reached_by(way, tmp_path / "certificates") as environ:
        _live_a_life(tmp_path, token, environ)


def _live_a_life(tmp_path: Path, token: str, environ: dict[str, str]) -> None:
    def launcher(*args: str) -> subprocess.CompletedProcess[str]:
        return _launcher(*args, folder=tmp_path, **environ)

    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "hello").write_text(token)
    job = {
        "version": 1,
        "project": token,
        "name": "job",
        "scheduler": "local_docker",
        "workspace": "src",
        "roles": {"r": {"image": SHELL_IMAGE, "entrypoint": "cat", "args": ["hello"]}},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    image = ""
    try:
        planned = launcher("plan", "job.yaml")
        assert planned.returncode == 0, planned.stderr
        applied = launcher("apply", "job.yaml", "--yes", "--wait")
        assert applied.returncode == 0, applied.stderr
        [container] = [one for one in Daemon().containers() if token in json.dumps(dict(one.labels))]
        image = Daemon().inspect(container.id)["Config"]["Image"]
        assert image.startswith("launcher-workspace:")
        listed = launcher("list", "--json")
        app = next(one for one in json.loads(listed.stdout) if token in json.dumps(one))
        assert token in launcher("logs", app["handle"]).stdout
        assert launcher("status", app["handle"]).returncode == 0
        gone = launcher("gc", "-s", "local_docker", "--older-than", "0")
        assert gone.returncode == 0, gone.stderr
        assert [one for one in Daemon().containers() if token in json.dumps(dict(one.labels))] == []
    finally:
        if image:
            Daemon().remove_image(image)


@pytest.mark.usefixtures("_hidden")
def test_a_pull_goes_without_credentials_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with fake_engine(tmp_path, lambda *_: reply(200, "")) as (fake, engine):
        engine.pull("web:1")
        (tmp_path / "config.json").write_text('{"auths": {"registry.test:5000": {"auth": "eDp5"}}}')
        engine.pull("web:1")
        assert [one["x-registry-auth"] for one in fake.headers[1:]] == ["e30="] * 2
        with pytest.raises(
            EngineError, match=r"cannot pull .* with the credentials .*needs the Python package"
        ) as caught:
            engine.pull("registry.test:5000/web:1")
    assert caught.value.hint == "pip install 'docker>=7'"
    assert len(fake.asked) == 1 + 2


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("web", "docker.io"),
        ("web:1", "docker.io"),
        ("me/web", "docker.io"),
        ("docker.io/me/web", "docker.io"),
        ("index.docker.io/me/web", "docker.io"),
        ("localhost/web", "localhost"),
        ("host:5000/web:1", "host:5000"),
        ("ghcr.io/a/b@sha256:0", "ghcr.io"),
    ],
)
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry


LOGINS: dict[str, Any] = {
    "none": {},
    "of the hub": {"auths": {"https://index.docker.io/v1/": {"auth": "eDp5"}}},
    "of another": {"auths": {"ghcr.io": {"auth": "eDp5"}}},
    "by a helper": {"credHelpers": {"ghcr.io": "x"}},
    "by a store": {"credsStore": "x"},
}


@pytest.mark.parametrize(
    ("login", "asks"),
    [
        ("none", ()),
        ("of the hub", ("web:1", "")),
        ("of another", ("ghcr.io/web", "")),
        ("by a helper", ("ghcr.io/web", "")),
        ("by a store", ("web:1", "ghcr.io/web", "")),
    ],
)
def test_the_package_is_loaded_only_where_there_are_credentials(login, asks, tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(configuration, "_of_sdk", lambda image, _: asked.append(image) or {})
    (tmp_path / "config.json").write_text(json.dumps(LOGINS[login]))
    for image in ("web:1", "ghcr.io/web", ""):
        configuration.login_headers(image, "pull", {"DOCKER_CONFIG": str(tmp_path)})
    assert tuple(asked) == asks


def test_the_header_without_credentials_is_an_empty_object() -> None:
    [value] = configuration.login_headers("web", "pull", {"DOCKER_CONFIG": "/nowhere"}).values()
    assert json.loads(base64.b64decode(value)) == {}
    assert configuration.login_headers("", "build", {"DOCKER_CONFIG": "/nowhere"}) == {}
