"""gc removes the parts of ended Docker apps, and keeps all else on an engine that others use, too."""

import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers import get_scheduler
from launcher.schedulers.docker import gc, record
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.view import EngineView
from tests.contract.conftest import END_S, DockerCase
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.proxy import Proxy, everything
from tests.scenarios.docker_engine.sweeps import traces
from tests.scenarios.docker_engine.test_pull import commit
from tests.waiting import until


def start(case: DockerCase, script: str = "true") -> str:
    return case.start(case.app(script, replicas=2))


def ended(case: DockerCase, app_id: str) -> dict[str, Any]:
    """Wait until `app_id` is finished; return all finished apps by app id."""
    scheduler: Any = case.scheduler
    scheduler.wait(app_id, END_S)

    def finished() -> dict[str, Any]:  # once the watcher has written down how it ended, and is gone
        found = {each.app_id: each for each in scheduler.finished()}
        return found if app_id in found else {}

    return until(finished)


def test_gc_removes_containers_volume_and_record_of_an_ended_app(case, staged, monkeypatch, tmp_path):
    app_id = start(case)
    app = ended(case, app_id)[app_id]
    assert (app.session, app.name, app.own) == (case.session, "contract", True)
    assert abs(app.ended_at - time.time()) < 2 * END_S
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
        assert not ended(case, app_id)[app_id].own
    assert traces(app_id) != []
    staged.remove(app_id)
    assert traces(app_id) == []
    assert not record.exists(record.folder(app_id))
    staged.remove(app_id)


def test_a_running_app_is_not_finished_and_cannot_be_removed(case: DockerCase, staged: Any) -> None:
    app_id = start(case, "exec sleep 1000")
    assert app_id not in {each.app_id for each in staged.finished()}
    with pytest.raises(SchedulerError, match="has not ended: running"):
        staged.remove(app_id)
    assert len(traces(app_id)) == 3


def test_gc_removes_volume_and_record_of_an_app_whose_containers_were_pruned(case, staged):
    app_id = start(case)
    ended(case, app_id)
    daemon = Daemon()
    daemon.remove([one for one in daemon.containers() if one.labels.get("launcher.app-id") == app_id])
    assert app_id in ended(case, app_id)
    staged.remove(app_id)
    assert traces(app_id) == []
    assert not record.exists(record.folder(app_id))


class Own:
    """The engine as seen by one test: it shows only objects with the token of the test."""

    def __init__(self, engine: EngineView, token: str) -> None:
        self._engine = engine
        self._token = token

    def containers(self, *labels: str) -> list[Any]:
        return self._of(self._engine.containers(*labels))

    def volumes(self, *labels: str) -> list[Any]:
        return self._of(self._engine.volumes(*labels))

    def networks(self, *labels: str) -> list[Any]:
        return self._of(self._engine.networks(*labels))

    def images(self, *labels: str) -> list[Any]:
        return self._of(self._engine.images(*labels))

    def _of(self, things: list[Any]) -> list[Any]:
        return [each for each in things if self._token in each.labels.values()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.fixture
def own(token: str) -> Iterator[Any]:
    engine = connect()
    yield Own(engine, token)
    engine.close()


LATER_S = 2 * gc.FRESH_S


def test_gc_sends_as_many_requests_for_many_apps_as_for_one(case, token, tmp_path, monkeypatch):
    with Proxy(tmp_path / "p.sock", everything) as proxy, pytest.MonkeyPatch.context() as host:
        host.setenv("DOCKER_HOST", proxy.host)
        reader: Any = get_scheduler("local_docker", token, readonly=True)
        # An app of another test that has failed without an end in its record is inspected by every list.
        reader._client = Own(reader._view, token)
        reader.list()  # asks for the engine's version, once

        def asked() -> list[list[str]]:
            """Return the requests of gc and list, here and from a state folder that knows no app."""
            counts = []
            for home in (str(launcher_home), str(tmp_path / "other")):
                with monkeypatch.context() as patch:
                    patch.setenv("LAUNCHER_HOME", home)
                    for call in (reader.finished, reader.list):
                        before = len(proxy.seen)
                        call()
                        counts.append([one.partition("?")[0] for one in proxy.seen[before:]])
            return counts

        launcher_home = os.environ["LAUNCHER_HOME"]
        ids = [start(case)]
        ended(case, ids[0])
        one = asked()
        ids += [start(case) for _ in range(3)]
        for app_id in ids:
            ended(case, app_id)
        assert asked() == one
        assert all(len(calls) <= 2 for calls in one), one
        reader.close()
        case.scheduler.close()  # its next connection is to the engine itself


def test_gc_names_the_kept_parts_with_the_reason_and_removes_them_later(own: Any, token: str) -> None:
    for number in range(2):
        name = f"{token}-{number}"
        own.create_volume(name, {"launcher.app-id": name, "launcher.session": token})
    own.ensure_network(token, {"launcher.network": token})
    made = own.create(
        f"{token}-c", {"Image": SHELL_IMAGE, "Cmd": ["true"], "Labels": {"launcher.app-id": token}}
    )
    assert [(what, why.partition(":")[0]) for what, why in gc.leftovers(own)] == [
        ("2 volumes", "made less than an hour ago"),
        (f"network {token}", "apps that have not ended use it"),
    ]
    assert gc.sweep(own) == []
    later = time.time() + LATER_S
    assert gc.leftovers(own, now=later)[1][0] == f"network {token}"
    assert sorted(gc.sweep(own, now=later)) == [f"volume {token}-{number}" for number in range(2)]
    own.remove(made)
    assert gc.sweep(own, now=later) == [f"network {token}"]
    assert gc.leftovers(own) == []


def test_gc_keeps_the_volume_of_an_app_with_containers(case: DockerCase, own: Any) -> None:
    app_id = start(case)
    ended(case, app_id)
    shutil.rmtree(record.folder(app_id))
    assert gc.sweep(own, now=time.time() + LATER_S) == []
    assert len(own.volumes()) == 1


def test_gc_removes_nothing_while_an_app_is_submitted(own: Any, token: str) -> None:
    labels = {"launcher.app-id": token, "launcher.part": "reservation"}
    made = own.create(f"{token}-c", {"Image": SHELL_IMAGE, "Cmd": ["true"], "Labels": labels})
    own.create_volume(f"{token}-v", {"launcher.app-id": f"{token}-gone", "launcher.session": token})
    assert gc.sweep(own, now=time.time() + LATER_S) == []
    own.remove(made)
    assert gc.sweep(own, now=time.time() + LATER_S) == [f"volume {token}-v"]


@pytest.mark.parametrize("goes", [True, False])
def test_gc_removes_a_labelled_image_only_if_it_has_a_launcher_name(own: Any, token: str, goes: bool) -> None:
    """An image that a user builds on a workspace image inherits its labels."""
    name = f"launcher-workspace:{token[1:]:0<20}" if goes else f"my/{token}:1"
    container = own.create(f"{token}-c", {"Image": SHELL_IMAGE, "Cmd": ["true"]})
    commit(container, name, {"launcher.workspace": token})
    own.remove(container)
    try:
        assert gc.sweep(own, now=time.time() + LATER_S) == ([f"image {name}"] if goes else [])
        assert (own.image(name) is None) == goes
    finally:
        Daemon().remove(one for one in Daemon().images() if token in one.labels.values())
