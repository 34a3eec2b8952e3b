"""Images are pulled, pushed and built, with progress on the way: against a registry on this machine."""

import base64
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.engine import split_tag
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.streams import Transfer, transfer
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.scenarios.docker_engine.bench import Bench
from tests.unit.docker.fake_engine import fake_engine, reply


@pytest.fixture
def own(own: Bench) -> Iterator[Bench]:
    yield own
    own.clear()
    for image in own.engine.images(own.label):
        Daemon().remove_image(image.tags[0] if image.tags else image.id)


class Heard:
    """The calls that a progress report got."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Mapping[str, Any]]] = []

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.all.append((kind, facts))

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(kind for kind, _ in self.all))


def test_a_registry_that_does_not_answer_is_reported(own: Bench):
    with pytest.raises(EngineError, match="connection refused") as caught:
        own.engine.pull("127.0.0.1:1/nosuch:1")
    assert "registry" in (caught.value.hint or "")


def test_a_missing_image_cannot_be_pushed(own: Bench):
    with pytest.raises(EngineError, match=f"cannot push 127.0.0.1:1/{own.token}:1"):
        own.engine.push(f"127.0.0.1:1/{own.token}:1")


def test_a_name_that_no_image_has_is_an_error(own: Bench):
    for name in ("UPPER:1", "a b", "", "http://x/y", "-x/y"):
        for call in (own.engine.pull, own.engine.push):
            with pytest.raises(SchedulerError):
                call(name)


DOCKERFILE = f"ARG IMAGE={SHELL_IMAGE}\nFROM $IMAGE\nCOPY . /srv\n"


def _context(own: Bench, dockerfile: str = DOCKERFILE) -> Iterator[bytes]:
    """A tar archive in several pieces. No other test has an equal one, with steps that it would remove."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in (("Dockerfile.x", dockerfile), ("main.txt", "hello\n"), ("token", own.token)):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    data = buffer.getvalue()
    yield from (data[at : at + 1000] for at in range(0, len(data), 1000))


def test_an_invalid_dockerfile_is_an_error(own: Bench):
    tag = f"launcher-workspace:{own.token}"
    for text in ("", "FROM\n", "FRUM x\n", "FROM launcher-test/../x\n"):
        with pytest.raises(EngineError, match=f"cannot build {tag}"):
            own.engine.build(_context(own, text), tag=tag, dockerfile="Dockerfile.x")


def test_a_build_names_the_unreadable_file_of_its_workspace(own: Bench):
    def context() -> Iterator[bytes]:
        yield b"\0" * 512
        raise PermissionError(13, "Permission denied", "secret.txt")

    with pytest.raises(SchedulerError, match=r"cannot read the workspace: .*secret\.txt"):
        own.engine.build(context(), tag=f"launcher-workspace:{own.token}")
    assert own.engine.containers(own.label) == []


def test_a_transfer_counts_the_bytes_of_the_layers_with_a_known_size():
    seen = Transfer()
    for message in (
        {"status": "Pulling fs layer", "id": "a", "progressDetail": {}},
        {"status": "Downloading", "id": "a", "progressDetail": {"current": 10, "total": 100}},
        {"status": "Downloading", "id": "b", "progressDetail": {"current": 5, "total": 50}},
        {"status": "Downloading", "id": "c", "progressDetail": {"current": 7}},
        {"status": "Extracting", "id": "a", "progressDetail": {"current": 1, "total": 300}},
    ):
        seen.update(message)
    assert (seen.done, seen.total) == (15, 150)
    seen.update({"status": "Download complete", "id": "a", "progressDetail": {}})
    assert (seen.done, seen.total) == (105, 150)


@pytest.mark.parametrize(("name", "parts"), [
    ("web", ("web", "latest")),
    ("web:1", ("web", "1")),
    ("host:5000/web", ("host:5000/web", "latest")),
    ("host:5000/a/web:1", ("host:5000/a/web", "1")),
    ("host:5000/web@sha256:ab", ("host:5000/web", "sha256:ab")),
])  # fmt: skip
def test_split_tag_separates_a_name_from_its_tag(name: str, parts: tuple[str, str]):
    assert split_tag(name) == parts


def test_the_credentials_of_docker_login_go_with_a_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    login = base64.b64encode(b"me:hunter2").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"registry.test:5000": {"auth": login}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with fake_engine(tmp_path, lambda *_: reply(200, '{"error": "denied"}')) as (fake, engine):
        for image in ("registry.test:5000/web:1", "elsewhere.test/web:1"):
            with pytest.raises(EngineError, match="denied"):
                engine.pull(image)
    sent = [json.loads(base64.urlsafe_b64decode(one["x-registry-auth"])) for one in fake.headers[1:]]
    assert [one.get("password") for one in sent] == ["hunter2", None]


def test_a_credential_store_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "config.json").write_text('{"credsStore": "nosuch"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with (
        fake_engine(tmp_path, lambda *_: reply(200, "")) as (_, engine),
        pytest.raises(EngineError, match=r"cannot pull web:1: .*nosuch") as caught,
    ):
        engine.pull("web:1")
    assert "docker login" in (caught.value.hint or "")


def test_a_transfer_reports_its_start_its_end_and_few_steps_between():
    steps = [
        {"status": "Pushing", "id": "a", "progressDetail": {"current": k, "total": 999}}
        for k in range(1, 1000)
    ]
    heard = Heard()
    transfer(steps, "pushing", "x", "push x", heard)
    assert heard.all[0] == ("pushing", {"image": "x", "done": 0, "total": 0})
    assert heard.all[-1] == ("pushing", {"image": "x", "done": 999, "total": 999})
    assert len(heard.all) < 100
