"""Reading an app while another client changes it: between the list and an inspect, or two lists.

A proxy before the engine makes the change at the very request, so that no race has to be hit.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ReservedError
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import RESERVATION_LABELS, attempt_labels, replica_labels
from launcher.schedulers.docker.watching import actions
from launcher.schedulers.owner import Owner, this_process
from tests.contract.conftest import DockerCase
from tests.contract.test_staged import attempt_of
from tests.engines.images import SHELL_IMAGE
from tests.engines.proxy import Proxy, everything
from tests.scenarios.docker_engine.raw_apps import SLEEP, RawApp

LIST = re.compile(r"GET /[^/]+/containers/json")
INSPECT = re.compile(r"GET /[^/]+/containers/[^/]+/json")
CREATE = re.compile(r"POST /[^/]+/containers/create")


@contextmanager
def meanwhile(
    folder: Path, request: re.Pattern[str], change: Callable[[], None], nth: int = 1
) -> Iterator[Engine]:
    """Yield the engine, on which `change` happens just before it gets the nth such request."""
    seen = 0

    def before(method: str, path: str) -> float:
        nonlocal seen
        seen += bool(request.match(f"{method} {path}"))
        if seen == nth:
            seen += 1
            change()
        return 0.0

    with Proxy(folder / "p.sock", everything, before) as proxy:
        view = connect(environ={**os.environ, "DOCKER_HOST": proxy.host})
        yield view
        view.close()


def dead() -> Owner:
    """Return a process that has ended, below this state folder."""
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    return replace(this_process(), pid=int(child.stdout), start=1)


def test_an_app_that_is_created_and_started_between_list_and_inspect_is_not_lost(engine, token, tmp_path):
    app = RawApp(engine, token, {"r": [SLEEP, SLEEP]})
    first = app._create("r", 0)

    def change() -> None:
        for made in (first, app._create("r", 1)):
            engine.start(made)

    with meanwhile(tmp_path, INSPECT, change) as slow:
        found = apps.find(slow, app.app_id)
    assert (found.view.state, found.view.drift) == ("running", "")
    actions.cancel(engine, app.app_id)


def test_an_app_whose_start_continues_after_the_death_of_its_owner_is_running(engine, token, tmp_path):
    """Reads before the death of the owner was noticed do not count: the owner may have started all since."""
    app = RawApp(engine, token, {"r": [SLEEP, SLEEP]}, owner=dead())
    made = app.create()
    with meanwhile(tmp_path, LIST, lambda: [engine.start(each) for each in made] and None, nth=2) as slow:
        found = apps.find(slow, app.app_id)
    assert (found.view.state, found.view.unstarted) == ("running", 0)
    actions.cancel(engine, app.app_id)


def test_a_watcher_below_another_state_folder_owns_the_app_of_its_dead_client(engine, token, tmp_path):
    owner = replace(dead(), home=str(tmp_path / "other"))
    app = RawApp(engine, token, {"r": [SLEEP]}, owner=owner)
    app.create()
    folder = record.folder_below(owner.home, app.app_id)
    os.makedirs(folder)
    held = record.claim(folder)
    found = apps.find(engine, app.app_id)
    assert found.owner == f"a watcher below {owner.home}"
    held.release()
    found = apps.find(engine, app.app_id)
    assert found.owner == ""
    actions.remove_app(engine, app.app_id, force=True)


def test_taking_back_an_app_leaves_containers_of_another_client_with_the_same_id(engine, token):
    """Two clients may reserve one id: the loser's watcher must not remove the winner's replicas."""
    ours = RawApp(engine, token, {"r": [SLEEP]})
    theirs = RawApp(engine, token, {"x": [SLEEP]}, owner=dead())
    record.claim(ours.app_dir).release()
    record.write_attempt(ours.app_dir, {"labels": {"launcher.owner": this_process().to_json()}})
    ours.create()
    engine.start(theirs.create()[0])
    assert actions.remove_app(engine, ours.app_id, force=True)
    assert [each.name for each in ours.containers()] == [theirs.name("x")]
    engine.remove(ours.containers()[0].id, force=True)


@pytest.mark.parametrize("taken_as", ["a replica", "a renamed reservation"])
def test_a_client_gives_back_an_app_id_that_another_client_took_first(
    case: DockerCase, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_as: str
) -> None:
    """The other client's reservation had been removed or renamed: its name was free for this client."""
    attempt = attempt_of(case, case.app())
    engine = connect()
    name, part, shown = {
        "a replica": (f"{attempt.app_id}-main-0", replica_labels("main", 0), ""),
        "a renamed reservation": (f"{token}-mine", RESERVATION_LABELS, r"taken \(reserved\) "),
    }[taken_as]
    labels = {**attempt_labels(attempt, this_process()), **part}

    def change() -> None:
        engine.create(name, {"Image": SHELL_IMAGE, "Cmd": ["true"], "Labels": labels})

    with meanwhile(tmp_path, CREATE, change) as slow, monkeypatch.context() as there:
        there.setenv("DOCKER_HOST", slow.host)
        staged: Any = case.another()
        with pytest.raises(ReservedError, match=f"{shown}by pid {os.getpid()} "):
            staged.reserve(attempt)
    left = engine.containers(f"launcher.app-id={attempt.app_id}")
    assert [each.name for each in left] == [name]
    engine.remove(left[0].id)
    engine.close()


class Slow(EngineView):
    """A view that counts its inspects, none of which begins after the deadline."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def inspect(self, container: str) -> Container | None:
        self.asked.append(container)
        return Container(id=container, name=container, state="exited", inspected=True)


def test_a_container_that_cannot_be_inspected_in_time_is_returned_as_listed() -> None:
    listed = [Container(id=f"id{k}", name=f"n{k}", state="exited") for k in range(3)]
    slow = Slow()
    assert slow.inspect_within(listed, within_s=-1.0) == listed
    assert slow.asked == []
    assert all(each.inspected for each in slow.inspect_within(listed, within_s=60.0))
