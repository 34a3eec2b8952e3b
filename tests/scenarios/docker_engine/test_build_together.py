"""Clients that need the same workspace image at the same time make one build and one image."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LauncherError
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import BuildFailed
from launcher.schedulers.docker.image_build import LABEL, NAME, build_workspace, exclusive, once
from tests.engines.docker import DEFAULT_HOST, Daemon
from tests.engines.images import SHELL_IMAGE
from tests.engines.proxy import Proxy, everything
from tests.scenarios.docker_engine.bench import Bench
from tests.scenarios.docker_engine.test_build import Place, app
from tests.waiting import PATIENCE_S, until

MANY = 8
SLOW = "ARG IMAGE\nFROM $IMAGE\nCOPY . /w\nRUN sleep 0.5\n"
BUILD = (
    "import sys\n"
    "from launcher.schedulers.workspaces import bind_workspace\n"
    "from launcher.schedulers.docker.client.engine import connect\n"
    "from launcher.schedulers.docker.image_build import build_workspace\n"
    "from launcher.specs import AppDef, Role\n"
    "engine = connect()\n"
    "workspace = bind_workspace(sys.argv[1])\n"
    "print('ready', flush=True)\n"
    "sys.stdin.readline()\n"
    "build_workspace(engine, AppDef('app', [Role('r0', sys.argv[2], entrypoint='sh')]), {}, workspace)\n"
)


@pytest.fixture
def place(own: Bench, tmp_path: Path) -> Iterator[Place]:
    made = Place(own, tmp_path / "src")
    made.write("Dockerfile", SLOW)
    yield made
    own.clear()
    for image in images(made):
        Daemon().remove_image(image)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(tmp_path / "p.sock", everything) as found:
        yield found


def images(place: Place) -> list[str]:
    """Ids of the images of the workspace, dangling ones too."""
    return [image.id for image in place.own.engine.images(f"{LABEL}={place.workspace.digest}")]


def builds(proxy: Proxy) -> int:
    return sum("/build?" in asked for asked in proxy.seen)


def processes(place: Place, host: str, count: int, *, hosts: bool = False) -> list[subprocess.Popen[str]]:
    """Start `count` processes, each with its own state folder, that build the image once they get a line.

    Args:
        hosts: each stands for another host.
    """
    started = []
    for number in range(count):
        environ = {**os.environ, "DOCKER_HOST": host, "LAUNCHER_HOME": f"{place.folder}.{number}"}
        if hosts:
            environ["XDG_RUNTIME_DIR"] = f"{place.folder}.{number}"
        words = [sys.executable, "-c", BUILD, str(place.folder), SHELL_IMAGE]
        started.append(
            subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    for one in started:
        assert one.stdout.readline() == "ready\n"
    return started


def go(started: list[subprocess.Popen[str]]) -> list[int]:
    for one in started:
        one.stdin.write("\n")
        one.stdin.flush()
    for one in started:
        one.communicate(timeout=PATIENCE_S)
    return [one.returncode for one in started]


def waiting(place: Place) -> int:
    return sum(line.startswith("waiting for another build") for line in place.lines)


def test_a_failed_build_fails_all_jobs_of_an_apply_at_once(place: Place, proxy: Proxy) -> None:
    place.write("Dockerfile", "ARG IMAGE\nFROM $IMAGE\nRUN exit 3\n")
    engine = connect(environ={"DOCKER_HOST": proxy.host})
    workspace = place.workspace

    def failed(_: int) -> str:
        with pytest.raises(LauncherError) as error:
            build_workspace(engine, app(), {}, workspace, place.hear)
        return str(error.value)

    def once_all_wait(_method: str, path: str) -> float:
        if "/build?" in path:
            until(lambda: waiting(place) == 3)
        return 0.0

    proxy.delay_s = once_all_wait

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(failed, range(4)))) == 1
    engine.close()
    assert builds(proxy) == 1
    assert images(place) == []


def test_processes_with_separate_state_folders_build_an_image_once(place: Place, proxy: Proxy) -> None:
    assert go(processes(place, proxy.host, 4)) == [0] * 4
    assert builds(proxy) == 1
    assert len(images(place)) == 1


def test_another_process_builds_the_image_when_the_builder_is_killed(place: Place, proxy: Proxy) -> None:
    place.write("Dockerfile", SLOW.replace("0.5", "2"))
    first, second = processes(place, proxy.host, 2)
    first.stdin.write("\n")
    first.stdin.flush()
    until(lambda: builds(proxy) == 1)
    second.stdin.write("\n")
    second.stdin.flush()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0
    assert builds(proxy) == 2
    assert len(images(place)) == 1


def test_builds_of_two_hosts_leave_one_image(place: Place) -> None:
    """The lock sees each process as another host: it has a runtime folder of its own.

    Only images that a build has finished are counted: the engine may leave a step of builds that raced.
    """
    host = os.environ.get("DOCKER_HOST", DEFAULT_HOST)
    assert go(processes(place, host, 4, hosts=True)) == [0] * 4
    finished = [image for image in place.own.engine.images(NAME) if image.id in images(place)]
    assert [bool(image.tags) for image in finished] == [True]


STEP_REMOVED = [
    "failed to set parent sha256:1a: unknown parent image ID sha256:1a",
    "failed to get digest sha256:1a: open /var/lib/docker/image/sha256/1a: no such file or directory",
    "No such image: sha256:1a",
]
"""What the engine says, by the moment."""


@pytest.mark.parametrize(
    ("removed", "built", "message"),
    [*((2, True, each) for each in STEP_REMOVED), (3, False, STEP_REMOVED[0])],
)
def test_a_build_whose_cached_step_is_removed_is_repeated(place, monkeypatch, removed, built, message):
    """A client that removes its image removes its steps, too, also those that a running build has found."""
    failures = [BuildFailed("x", message, ())] * removed
    build = Engine.build

    def interrupted(engine: Engine, *given: Any, **named: Any) -> str:
        if failures:
            raise failures.pop()
        return build(engine, *given, **named)

    monkeypatch.setattr(Engine, "build", interrupted)
    if built:
        build_workspace(place.own.engine, app(), {}, place.workspace)
    else:
        with pytest.raises(BuildFailed):
            build_workspace(place.own.engine, app(), {}, place.workspace)
    assert len(images(place)) == int(built)


def test_a_change_of_the_workspace_leaves_one_image_for_each_content(place: Place) -> None:
    engine, ids = place.own.engine, set()
    for text in ("one", "two", "one"):
        place.write("file", text)
        workspace = place.workspace
        place.digests.append(workspace.digest)
        with ThreadPoolExecutor(MANY) as pool:
            list(pool.map(lambda _: build_workspace(engine, app(), {}, workspace), range(MANY)))  # noqa: B023
        ids |= set(images(place))
    assert len(ids) == 2
    for image in ids:
        Daemon().remove_image(image)


def test_a_lock_is_free_after_its_holder_has_left(tmp_path: Path) -> None:
    message: list[str] = []
    for _ in range(2):
        with exclusive(f"{tmp_path}", lambda: message.append("waits")):
            pass
    assert message == []
    order: list[int] = []
    with ThreadPoolExecutor(MANY) as pool:
        for number in range(MANY):
            pool.submit(lambda number=number: _enter(f"{tmp_path}", order, number))
    assert sorted(order[::2]) == list(range(MANY))
    assert order[::2] == order[1::2], "one is inside at a time"


def _enter(name: str, order: list[int], number: int) -> None:
    with exclusive(name, lambda: None):
        order.append(number)
        order.append(number)


def test_a_failed_task_raises_its_error_and_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        once(f"{tmp_path}", lambda: 1 / 0 and None, lambda: None)
    done: list[int] = []
    once(f"{tmp_path}", lambda: done.append(1), lambda: None)
    assert done == [1]
