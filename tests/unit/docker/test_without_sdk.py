"""Without the Python package `docker`: what works, and what is said where it is needed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.docker.client import credentials
from launcher.schedulers.docker.client.credentials import registry_of
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import EngineError
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE, make_images
from tests.unit.docker.fake_engine import fake_engine, reply


@pytest.fixture
def _hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package cannot be imported in this process."""
    monkeypatch.setitem(sys.modules, "docker", None)


def _launcher(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process where the package cannot be imported."""
    script = "import sys; sys.modules['docker'] = None\nfrom launcher.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, cwd=folder, timeout=100
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.usefixtures("launcher_home")
def test_a_job_over_a_socket_is_planned_applied_read_and_removed(tmp_path: Path, token: str) -> None:
    make_images(SHELL_IMAGE)
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
        planned = _launcher("plan", "job.yaml", folder=tmp_path)
        assert planned.returncode == 0, planned.stderr
        applied = _launcher("apply", "job.yaml", "--yes", "--wait", folder=tmp_path)
        assert applied.returncode == 0, applied.stderr
        [container] = [one for one in Daemon().containers() if token in json.dumps(dict(one.labels))]
        image = Daemon().inspect(container.id)["Config"]["Image"]
        assert image.startswith("launcher-workspace:")
        listed = _launcher("list", "--json", folder=tmp_path)
        app = next(one for one in json.loads(listed.stdout) if token in json.dumps(one))
        assert token in _launcher("logs", app["handle"], folder=tmp_path).stdout
        assert _launcher("status", app["handle"], folder=tmp_path).returncode == 0
        gone = _launcher("gc", "-s", "local_docker", "--older-than", "0", folder=tmp_path)
        assert gone.returncode == 0, gone.stderr
        assert [one for one in Daemon().containers() if token in json.dumps(dict(one.labels))] == []
    finally:
        if image:
            Daemon().remove_image(image)


@pytest.mark.usefixtures("_hidden")
@pytest.mark.parametrize("host", ["tcp://127.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1:1"])
def test_a_port_names_the_package_and_the_command_that_installs_it(host: str) -> None:
    with pytest.raises(EngineError, match=r"needs the Python package `docker`") as caught:
        connect(environ={"DOCKER_HOST": host})
    assert "pip install 'docker>=7'" in (caught.value.hint or "")
    connect(environ={"DOCKER_HOST": "ssh://host"}).close()


@pytest.mark.usefixtures("_hidden")
def test_a_pull_goes_without_credentials_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with fake_engine(tmp_path, lambda *_: reply(200, "")) as (fake, engine):
        engine.pull("web:1")
        (tmp_path / "config.json").write_text('{"auths": {"registry.test:5000": {"auth": "eDp5"}}}')
        engine.pull("web:1")
        assert [one["x-registry-auth"] for one in fake.headers[1:]] == ["e30="] * 2
        with pytest.raises(
            EngineError, match=r"cannot pull .* with the credentials .*needs the Python package"
        ):
            engine.pull("registry.test:5000/web:1")
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
def test_the_package_is_loaded_only_where_there_are_credentials(
    login: str, asks: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(credentials, "_of_sdk", lambda image, _: asked.append(image) or {})
    (tmp_path / "config.json").write_text(json.dumps(LOGINS[login]))
    for image in ("web:1", "ghcr.io/web", ""):
        credentials.headers(image, "pull", {"DOCKER_CONFIG": str(tmp_path)})
    assert tuple(asked) == asks


def test_the_header_without_credentials_is_an_empty_object() -> None:
    [value] = credentials.headers("web", "pull", {"DOCKER_CONFIG": "/nowhere"}).values()
    assert json.loads(base64.b64decode(value)) == {}
    assert credentials.headers("", "build", {"DOCKER_CONFIG": "/nowhere"}) == {}
