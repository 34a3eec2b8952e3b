"""Jobs whose watcher is on the engine."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from launcher.schedulers.docker.watchers import TURNS
from tests import engines, processes
from tests.docker_scenario import DockerScenario
from tests.engines.docker import Refused
from tests.engines.images import PYTHON_IMAGE, RECIPES
from tests.waiting import until


class Watched:
    """A scenario whose jobs are watched on the engine, by a watcher that no other test shares."""

    def __init__(self, scenario: DockerScenario, name: str = "watcher") -> None:
        self.scenario = scenario
        self.image = f"launcher-test/{name}:{scenario.token}"
        scenario.daemon.tag(PYTHON_IMAGE, self.image)

    def job(self, script: str, *, name: str = "job", top: str = "", role: str = "") -> Path:
        cfg = f"cfg: {{watcher: engine, watcher_image: '{self.image}'}}"
        return self.scenario.job(script, name=name, top=f"{cfg}\n{top}", role=role)

    def give_folder(self, path: str, *, uid: int, mode: int) -> None:
        """Put a folder of this user into the image: a new volume at this path takes owner and mode of it."""
        folder = tarfile.TarInfo(path.lstrip("/"))
        folder.type, folder.uid, folder.mode = tarfile.DIRTYPE, uid, mode
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(folder)
        made = _docker("create", self.image).decode().strip()
        _docker("cp", "--archive", "-", f"{made}:/", given=packed.getvalue())
        _docker("commit", made, self.image)
        _docker("rm", made)

    def watchers(self) -> list[str]:
        """Return the ids of the containers of watchers."""
        return [each["Id"] for each in self._listed()]

    def names(self) -> set[str]:
        """Return the names of the containers of watchers."""
        return {name.strip("/") for each in self._listed() for name in each["Names"]}

    def _listed(self) -> list[dict[str, Any]]:
        found = self.scenario.daemon.ask("GET", "/containers/json", all="1")
        return [each for each in found if each["Image"] == self.image]

    @property
    def pid(self) -> int:
        """Return the pid of the only watcher, once the engine has started or restarted it."""
        [watcher] = self.watchers()
        until(lambda: self._pid(watcher))
        return self._pid(watcher)

    def _pid(self, watcher: str) -> int:
        found: int = self.scenario.daemon.inspect(watcher)["State"]["Pid"]
        return found

    def volumes(self) -> set[str]:
        """Return the names of the volumes of watchers, without the one that all of them share."""
        found = (each for watcher in self.watchers() for each in self._mounts(watcher))
        return {each["Name"] for each in found if each["Type"] == "volume"} - {TURNS}

    def _mounts(self, watcher: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self.scenario.daemon.inspect(watcher)["Mounts"]
        except Refused as refused:
            if refused.status != 404:
                raise
            return []  # its last app has ended since it was listed
        return found

    def remove_watchers(self) -> None:
        """Remove the containers of watchers with their own volumes, as `docker rm -fv`."""
        for each in self.watchers():
            self.scenario.daemon.ask("DELETE", f"/containers/{each}", force="1", v="1")

    def remove(self) -> None:
        """Remove all objects that belong to no app."""
        self.remove_watchers()
        self.scenario.daemon.remove_image(self.image)

    def forget_client(self) -> None:
        """Kill every process of the client's state folder, and remove the folder."""
        processes.kill(processes.of_home(str(self.scenario.home)))
        shutil.rmtree(self.scenario.home)

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each job that the engine keeps."""
        return {
            each.labels["launcher.job"]: each.labels["launcher.outcome"]
            for each in self.scenario.things()
            if "launcher.tombstone" in each.labels
        }

    def ends(self, **outcomes: str) -> None:
        """Wait for these outcomes, and until nothing of the watcher is left."""
        volumes = self.volumes()
        until(lambda: self.outcomes() == outcomes, self.scenario.things)
        until(lambda: not self.watchers())
        until(lambda: volumes.isdisjoint(each.name for each in self.scenario.daemon.volumes()))


def _docker(*words: str, given: bytes = b"") -> bytes:
    return subprocess.run(["docker", *words], input=given, capture_output=True, check=True).stdout


def make_own_image(name: str) -> None:
    """Make an image of the tests at the engine of one test alone."""
    subprocess.run([Path(engines.__file__).parent / RECIPES[name], name], check=True)
