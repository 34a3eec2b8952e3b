"""Scenarios on the real engine: the same words, other apps."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.contract.conftest import Gate
from tests.docker_scenario import DockerScenario
from tests.engines import require
from tests.engines.docker import Daemon
from tests.engines.images import make_images
from tests.engines.own import OwnEngine, require_own
from tests.engines.sshd import OPTIONS, Sshd
from tests.forkserver import Done
from tests.scenarios.docker.watched import Watched


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path, token: str) -> Iterator[DockerScenario]:
    """A scenario for containers."""
    work = tmp_path / "w"
    work.mkdir()
    with DockerScenario(work, launcher_home, token) as words:
        yield words


@pytest.fixture
def another(scenario: DockerScenario) -> Callable[..., Done]:
    """A function that runs a command as another user of the engine, with another state folder."""
    return partial(scenario.launcher, env=scenario.elsewhere)


@pytest.fixture
def engine(scenario: DockerScenario, request: pytest.FixtureRequest) -> Iterator[OwnEngine]:
    """An engine of this test's own, which every command asks from now on.

    Its parameter, where it has one: options of `dockerd`.
    """
    require_own()
    with OwnEngine(*getattr(request, "param", ())) as made:
        with pytest.MonkeyPatch.context() as way:
            way.setenv("DOCKER_HOST", made.host)
            scenario.daemon = Daemon()
            yield made
        scenario.daemon = Daemon()


@pytest.fixture
def watched(scenario: DockerScenario) -> Iterator[Watched]:
    make_images()
    made = Watched(scenario)
    yield made
    made.remove()


@pytest.fixture
def gate(scenario: DockerScenario) -> Gate:
    return Gate(scenario.folder / "gate")


@pytest.fixture(params=["unix", "ssh"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Let all commands of the test reach the engine by its socket, or over ssh."""
    if request.param == "unix":
        yield
        return
    require("sshd")
    with Sshd(tmp_path / "sshd") as sshd, pytest.MonkeyPatch.context() as patched:
        folder, known = tmp_path / "bin", tmp_path / "known_hosts"
        folder.mkdir()
        known.write_text(f"{sshd.known_hosts}\n")
        options = f"-i {tmp_path}/sshd/key -o UserKnownHostsFile={known} {OPTIONS}"
        (folder / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} "$@"\n')
        (folder / "ssh").chmod(0o755)
        patched.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        patched.setenv("DOCKER_HOST", f"ssh://{sshd.address}{Daemon().socket_path}")
        yield
