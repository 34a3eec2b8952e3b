"""Which kept attempts ran another image than their roles name now: two questions, however many attempts."""

import json
from pathlib import Path

import pytest

from launcher.schedulers.docker.images import changed_tags
from launcher.specs import AppDef, Role
from tests.unit.docker.fake_engine import fake_engine, reply

OLD, NEW = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


def _container(app_id: str, role: str, image: str) -> dict[str, object]:
    labels = {"launcher.app-id": app_id, "launcher.role": role, "launcher.job": "j"}
    return {"Id": f"{app_id}-{role}", "Names": [f"/{app_id}-{role}-0"], "ImageID": image, "Labels": labels}


@pytest.mark.parametrize(("name", "tags", "labels", "noted"), [
    ("web:1", ["web:1"], {}, True), ("web", ["web:latest"], {}, True),
    ("docker.io/library/web:1", ["web:1"], {}, True), ("docker.io/me/web:1", ["me/web:1"], {}, True),
    ("host:5000/web", ["host:5000/web:latest"], {}, True), ("web:1", ["web:2"], {}, False),
    ("web:1", ["web:1"], {"launcher.workspace": "ws1"}, False), (OLD, ["web:1"], {}, False),
])  # fmt: skip
def test_a_name_is_compared_as_the_engine_lists_it(tmp_path, name, tags, labels, noted):
    images = [{"Id": NEW, "RepoTags": tags}, {"Id": OLD, "RepoTags": None, "Labels": labels}]
    containers = [_container(f"j-{n}", "r", OLD) for n in range(9)] + [_container("other", "r", OLD)]

    def answer(_: str, path: str) -> bytes:
        return reply(200, json.dumps(containers if "/containers/" in path else images))

    kept = {f"j-{n}": AppDef("j", [Role("r", name), Role("gone", name)]) for n in range(9)}
    with fake_engine(tmp_path, answer) as (fake, engine):
        found = changed_tags(engine, kept)
    assert set(found) == (set(kept) if noted else set())
    assert len(fake.asked) == 1 + 2
    if noted:
        assert found["j-0"] == [
            f"role `r` ran {name} when that was {'a' * 12}; the engine has {'b' * 12} under this name now"
        ]


def test_without_kept_attempts_that_have_containers_no_image_is_asked_for(tmp_path: Path) -> None:
    with fake_engine(tmp_path, lambda *_: reply(200, "[]")) as (fake, engine):
        assert changed_tags(engine, {"j-1": AppDef("j", [Role("r", "web:1")])}) == {}
    assert len(fake.asked) == 1 + 1
