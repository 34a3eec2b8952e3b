"""The words of scenarios for apps in containers, whose objects have the token of the test in their labels."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes
from tests.engines import tidy
from tests.engines.docker import Daemon, Thing, is_ours
from tests.engines.images import SHELL_IMAGE
from tests.scenario import Scenario

if TYPE_CHECKING:
    from launcher.specs.attempt import Attempt

ENDED = ("exited", "dead")
FORGET_TRIES = 5


class DockerScenario(Scenario):
    """`job()` makes jobs of local_docker in the project `token`, in whose containers `folder` is mounted."""

    def __init__(self, folder: Path, home: Path, token: str) -> None:
        super().__init__(folder, home)
        self.token = token
        self.daemon = Daemon()
        self._by_hand: set[str] = set()
        self.write("launcher.toml", f'project = "{token}"\n')

    def job(
        self,
        script: str,
        *,
        name: str = "job",
        replicas: int = 1,
        role: str = "",
        top: str = "",
        image: str = SHELL_IMAGE,
    ) -> Path:
        mount = f"{{type: bind, src: {self.folder}, dst: {self.folder}}}"
        role = f"image: {image}\nmounts: [{mount}]\n{textwrap.dedent(role).strip()}"
        top = f"scheduler: local_docker\n{textwrap.dedent(top).strip()}"
        return super().job(script, name=name, replicas=replicas, role=role, top=top)

    def attempts(self, job: str = "job", *, project: str = "", target: str = "default") -> list[Attempt]:
        return super().attempts(job, project=project or self.token, target=target)

    def actions_elsewhere(self, *argv: str | Path) -> dict[str, str]:
        """Return the action of a plan of another state folder for each job."""
        plan = json.loads(self.launcher("plan", *argv, "--format", "json", env=self.elsewhere).out)
        return {job["key"]["job"]: job["action"] for job in plan["jobs"]}

    # the world

    def things(self) -> list[Thing]:
        """Return all objects of this test on the engine."""
        return tidy.of_token(self.token, self.daemon.everything())

    def containers(self, app_id: str = "") -> list[Thing]:
        """Return the containers of this test, of one app or of all, by name."""
        found = [thing for thing in self.things() if thing.kind == "container"]
        return sorted(
            (one for one in found if not app_id or one.labels["launcher.app-id"] == app_id),
            key=lambda one: one.name,
        )

    def container(self, app_id: str, k: int = 0, role: str = "main") -> Thing:
        return next(
            one
            for one in self.containers(app_id)
            if one.labels.get("launcher.role") == role and one.labels.get("launcher.replica") == str(k)
        )

    def remove_by_hand(self, containers: Iterable[Thing]) -> None:
        """Remove containers as `docker rm -f` does. Their scratch volumes go at the end of the test."""
        gone = list(containers)
        self.daemon.remove(gone)
        self._by_hand |= {one.labels["launcher.app-id"] for one in gone}

    def prune(self, app_id: str = "") -> None:
        """Remove the ended containers of this test, as `docker container prune` does."""
        self.remove_by_hand(one for one in self.containers(app_id) if one.state in (*ENDED, "created"))

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        volumes = [thing for thing in self.daemon.volumes() if is_ours(thing)]
        self.daemon.remove(one for one in volumes if one.labels.get("launcher.app-id") in self._by_hand)

    def forget(self) -> None:
        """Remove the ledger and everything else below LAUNCHER_HOME, though a watcher may write there."""
        for left in reversed(range(FORGET_TRIES)):
            done = subprocess.run(["rm", "-rf", str(self.home)], check=not left, capture_output=bool(left))
            if done.returncode == 0:
                return

    def processes_of(self, app_id: str) -> list[int]:
        """Return the pids of the watchers of an app, and of its live containers."""
        live = (one for one in self.containers(app_id) if one.state not in ENDED)
        pids = [self.daemon.inspect(one.id)["State"]["Pid"] for one in live]
        return [*super().processes_of(app_id), *filter(None, pids)]  # 0 of one that was never started

    def apps(self) -> list[str]:
        """Return the app ids in the labels of objects on the engine."""
        return sorted({one.labels["launcher.app-id"] for one in self.things() if not tidy.outlives(one)})

    def kill_watcher(self, app_id: str) -> None:
        """Kill the watcher of an app, which other apps may share."""
        self._kill(self.supervisors()[app_id])

    def watchers(self) -> list[int]:
        """Return all watchers, also those that still read from a killed client or that lost their engine."""
        return processes.watchers(str(self.home))

    def kill_watchers(self) -> None:
        """Kill all watchers. Some may end meanwhile."""
        self._kill(*self.watchers())

    @contextmanager
    def other_watcher(self) -> Iterator[None]:
        """Within this context applied apps get a new watcher, not the watcher of earlier apps."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("DOCKER_CONFIG", str(self.folder / "other-configuration"))
            yield

    def _kill(self, *watchers: int) -> None:
        processes.kill(watchers)
        assert processes.gone(watchers, timeout_s=60)
