"""The contract of every kind of workspace: the same files arrive."""

import copy
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.image_build import BASES, FOLDER
from launcher.specs import Role
from launcher.workspace import (
    DirWorkspaceMixin,
    TmpDirWorkspaceMixin,
    Workspace,
    WorkspaceError,
    WorkspaceMixin,
    walk_workspace,
)
from launcher.workspace.docker_workspace import DockerWorkspaceMixin
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE


class File(NamedTuple):
    """The file that a role finds at a path."""

    text: str
    runs: bool = False
    link: str = ""


class Place:
    """One kind of workspace: builds it, and reads the files that roles get."""

    image = "before"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def mixin(self) -> WorkspaceMixin[Any]:
        raise NotImplementedError

    def cfg(self) -> Mapping[str, Any]:
        return {}

    def build(self, workspace: Workspace | str, *roles: Role) -> list[Role]:
        built = list(roles) or [Role("r", self.image)]
        self.mixin().build_workspace_and_update_roles(built, workspace, self.cfg())
        return built

    def files(self, workspace: Workspace | str) -> dict[str, File]:
        (role,) = self.build(workspace)
        return self.look(role.image)

    def look(self, image: str) -> dict[str, File]:
        """Return the files of a built workspace by path."""
        found = {}
        for folder, dirs, names in os.walk(image):
            for name in [*names, *dirs]:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    found[os.path.relpath(path, image)] = File("", link=os.readlink(path))
                elif os.path.isfile(path):
                    runs = bool(os.stat(path).st_mode & stat.S_IXUSR)
                    found[os.path.relpath(path, image)] = File(Path(path).read_text(), runs)
        return found

    def left(self) -> list[str]:
        """Return the workspaces that were made and still exist."""
        return sorted(os.listdir(self.folder))

    def clear(self) -> None:
        """Remove all that a test has made."""


class DirPlace(Place):
    def mixin(self) -> WorkspaceMixin[Any]:
        return DirWorkspaceMixin()

    def cfg(self) -> Mapping[str, Any]:
        self.made += 1
        return {"job_dir": str(self.folder / f"job{self.made}")}


class TmpDirPlace(Place):
    def mixin(self) -> WorkspaceMixin[Any]:
        return TmpDirWorkspaceMixin()


class DockerPlace(Place):
    """Images. Each holds the files of the image below it as well, which are none of the workspace's:
    only in FOLDER may there be more. The one below is this test's alone, so that what is built on it is, too.
    It names no working folder."""

    def __init__(self, folder: Path, token: str) -> None:
        super().__init__(folder)
        self.engine = connect()
        self.daemon = Daemon()
        self.images: set[str] = set()
        self.image = f"launcher-test/{token}:1"
        self.base = self._base(token)
        self.below = set(self._export(self.image))

    def mixin(self) -> WorkspaceMixin[Any]:
        return DockerWorkspaceMixin(docker_client=self.engine)

    def build(self, workspace: Workspace | str, *roles: Role) -> list[Role]:
        built = super().build(workspace, *roles)
        self.images |= {role.image for role in built}
        return built

    def look(self, image: str) -> dict[str, File]:
        there = self._export(image)
        top = f"{FOLDER[1:]}/"
        assert {path for path in there.keys() - self.below if not path.startswith(top)} == set()
        return {path.removeprefix(top): file for path, file in there.items() if path.startswith(top)}

    def left(self) -> list[str]:
        built = self.engine.images(f"{BASES}={self.base}")
        return [*super().left(), *sorted(name for image in built for name in image.tags)]

    def clear(self) -> None:
        for image in (*(self.images - {self.image}), self.image):
            self.daemon.remove_image(image)
        self.engine.close()

    def _base(self, token: str) -> str:
        """Return the id of an image that only this test has."""
        made = self.daemon.ask("POST", "/containers/create", {"Image": SHELL_IMAGE, "Cmd": ["true"]})["Id"]
        try:
            name, _, tag = self.image.partition(":")
            options = {"container": made, "repo": name, "tag": tag, "changes": f"LABEL launcher-test={token}"}
            return str(self.daemon.ask("POST", "/commit", {}, **options)["Id"])
        finally:
            self.daemon.ask("DELETE", f"/containers/{made}", force="1", v="1")

    def _export(self, image: str) -> dict[str, File]:
        made = self.daemon.ask("POST", "/containers/create", {"Image": image, "Cmd": ["true"]})["Id"]
        try:
            data = self.daemon.ask("GET", f"/containers/{made}/export")
        finally:
            self.daemon.ask("DELETE", f"/containers/{made}", force="1", v="1")
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return {
                member.name: _of_member(member, tar)
                for member in tar
                if member.issym() or (member.isfile() and member.size < 1 << 16)
            }


def _of_member(member: tarfile.TarInfo, tar: tarfile.TarFile) -> File:
    if member.issym():
        return File("", link=member.linkname)
    file = tar.extractfile(member)
    return File(file.read().decode(errors="replace"), bool(member.mode & 0o100))


@pytest.fixture(params=["directory", "temporary", pytest.param("docker", marks=pytest.mark.engine)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    folder = tmp_path / "made"
    folder.mkdir()
    if request.param == "docker":
        found: Place = DockerPlace(folder, request.getfixturevalue("token"))
    else:
        found = {"directory": DirPlace, "temporary": TmpDirPlace}[request.param](folder)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield found
    found.clear()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a program, links, files to leave behind, and a mark that no other test has."""
    folder = tmp_path / "project"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "empty").mkdir()
    files = {
        "run.sh": "#!/bin/sh\n",
        "sub/a.py": "a = 1\n", "sub/deep/b.py": "b = 1\n", "sub/deep/b.log": "", "secret.env": "",
        ".git/HEAD": "", ".dockerignore": "*.env\n**/*.log\n!sub/keep.log\n", "sub/keep.log": "",
        "mark": str(tmp_path),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "run.sh").chmod(0o755)
    (folder / "gone").symlink_to("nowhere")
    (folder / "inner").symlink_to("sub")
    return folder


COUNTS = [".dockerignore", "gone", "inner", "mark", "run.sh", "sub/a.py", "sub/deep/b.py", "sub/keep.log"]


def test_the_files_that_count_are_copied_unchanged(place: Place, project: Path) -> None:
    found = place.files(str(project))
    assert sorted(found) == COUNTS
    assert found["sub/a.py"] == File("a = 1\n")
    assert found["run.sh"] == File("#!/bin/sh\n", runs=True)
    assert found["gone"] == File("", link="nowhere")
    assert found["inner"] == File("", link="sub")


def test_a_walk_names_the_same_files(place: Place, project: Path) -> None:
    walked = [
        os.path.relpath(os.path.join(folder, name), project)
        for folder, _, files in walk_workspace(project)
        for name in files
    ]
    assert sorted(walked) == sorted(place.files(str(project)))


def test_projects_lie_where_they_are_mapped_and_later_projects_win(place: Place, project: Path) -> None:
    (project.parent / "one.txt").write_text("1")
    (project.parent / "two").mkdir()
    (project.parent / "two" / "a.py").write_text("a = 2\n")
    given = {str(project): "", str(project.parent / "one.txt"): "lib/", str(project.parent / "two"): "sub"}
    found = place.files(Workspace(given))
    assert sorted(found) == sorted([*COUNTS, "lib/one.txt"])
    assert found["sub/a.py"].text == "a = 2\n"
    assert found["run.sh"].runs


def test_several_projects_leave_no_copy_beside_the_built_workspace(place: Place, project: Path) -> None:
    built = place.build(Workspace({str(project): "", str(project / "sub"): "lib"}))
    assert len(place.left()) == 1
    assert built[0].image.endswith(place.left()[0].rpartition("/")[2])


def test_a_missing_folder_is_an_error_and_leaves_nothing(place: Place, project: Path) -> None:
    for given in ({str(project / "none"): ""}, {str(project): "", str(project / "none"): "lib"}):
        role = Role("r", place.image)
        with pytest.raises(WorkspaceError, match=r"there is no .*none|cannot read .*none.*: No such file"):
            place.build(Workspace(given), role)
        assert role.image == place.image
        assert place.left() == []


def test_every_role_gets_the_workspace(place: Place, project: Path) -> None:
    one, other = place.build(str(project), Role("a", place.image), Role("b", place.image))
    assert one.image == other.image != place.image
    assert "run.sh" in place.look(other.image)


def test_only_the_image_of_a_role_is_changed(place: Place, project: Path) -> None:
    role = Role("r", place.image, entrypoint="sh", args=["run.sh"], env={"A": "1"})
    before = copy.deepcopy(role)
    place.build(str(project), role)
    assert replace(role, image=before.image) == before


def test_the_folder_of_the_project_is_not_touched(place: Place, project: Path) -> None:
    before = sorted(str(path) for path in project.rglob("*"))
    place.build(str(project))
    assert sorted(str(path) for path in project.rglob("*")) == before
