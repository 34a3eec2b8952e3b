"""Docker without its Python package `docker`: what works, and the error where the package is needed."""

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher.schedulers.docker.client import configuration
from launcher.schedulers.docker.client.configuration import registry_of
from launcher.schedulers.docker.client.errors import EngineError
from tests.unit.docker.fake_engine import fake_engine, reply


@pytest.fixture
def _hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the package impossible to import in this process."""
    monkeypatch.setitem(sys.modules, "docker", None)


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


@pytest.mark.parametrize(("image", "registry"), [
    ("web", "docker.io"), ("web:1", "docker.io"), ("me/web", "docker.io"),
    ("docker.io/me/web", "docker.io"), ("index.docker.io/me/web", "docker.io"),
    ("localhost/web", "localhost"), ("host:5000/web:1", "host:5000"), ("ghcr.io/a/b@sha256:0", "ghcr.io"),
])  # fmt: skip
def test_the_registry_is_read_from_the_name_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry


LOGINS: dict[str, Any] = {
    "none": {},
    "of the hub": {"auths": {"https://index.docker.io/v1/": {"auth": "eDp5"}}},
    "of another": {"auths": {"ghcr.io": {"auth": "eDp5"}}},
    "by a helper": {"credHelpers": {"ghcr.io": "x"}},
    "by a store": {"credsStore": "x"},
}


@pytest.mark.parametrize(("login", "asks"), [
    ("none", ()), ("of the hub", ("web:1", "")), ("of another", ("ghcr.io/web", "")),
    ("by a helper", ("ghcr.io/web", "")), ("by a store", ("web:1", "ghcr.io/web", "")),
])  # fmt: skip
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


def test_one_module_alone_imports_the_package() -> None:
    """The rest of a job's life works without it."""
    package = Path(launcher.__file__).parent
    imports = re.compile(r"^\s*(?:import|from) docker\b", re.MULTILINE)
    found = [each for each in package.rglob("*.py") if imports.search(each.read_text())]
    assert [str(each) for each in found] == [configuration.__file__]
