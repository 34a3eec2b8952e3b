"""Workspaces of the Python API: which projects, where they go, and what a directory workspace holds."""

import os
from pathlib import Path

import pytest

from launcher.specs import InvalidRunConfigException, Role
from launcher.workspace import DirWorkspaceMixin, TmpDirWorkspaceMixin, Workspace, WorkspaceError
from launcher.workspace.api import copy_into, in_order, merged
from launcher.workspace.context import project_digest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a program, a dangling link, a link to a folder, and things to leave behind."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub" / "a.py").write_text("a = 1\n")
    (folder / "secret.env").touch()
    (folder / ".dockerignore").write_text("*.env\n")
    (folder / "gone").symlink_to("nowhere")
    (folder / "inner").symlink_to("sub")
    return folder


FILES = [".dockerignore", "gone", "inner", "run.sh", "sub/a.py"]


def tree(folder: str | Path) -> list[str]:
    found = []
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        found += [os.path.relpath(os.path.join(path, name), folder) for name in files + links]
    return sorted(found)


@pytest.mark.parametrize(("text", "projects"), [
    (".", {".": ""}), ("//foo/bar:main", {"//foo/bar:main": ""}),
    ("{a: , b: lib}", {"a": "", "b": "lib"}), ("a: x\nb: y\n", {"a": "x", "b": "y"}),
])  # fmt: skip
def test_a_workspace_is_read_from_text(text: str, projects: dict[str, str]) -> None:
    assert Workspace.from_str(text).projects == projects


@pytest.mark.parametrize("text", ["", "  ", "{a: [", "{}", "{a: [b]}", "{a: {b: c}}", "? [a]\n: b", None, 3])
def test_text_that_is_no_workspace_is_refused(text: str) -> None:
    with pytest.raises(WorkspaceError):
        Workspace.from_str(text)


def test_the_text_of_a_workspace_names_its_projects() -> None:
    assert str(Workspace({"a": ""})) == "a"
    assert str(Workspace({"a": "", "b": "lib"})) == "a;b:lib"
    assert Workspace({"a": ""}).is_unmapped_single_project()
    assert not Workspace({"a": "x"}).is_unmapped_single_project()


def test_projects_go_where_they_are_mapped(project: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("1")
    given = {str(project): "", str(project / "sub"): "lib", str(tmp_path / "one.txt"): "lib/two.txt"}
    with merged(Workspace(given)) as folder:
        assert tree(folder) == sorted([*FILES, "lib/a.py", "lib/two.txt"])
        assert os.access(os.path.join(folder, "run.sh"), os.X_OK)
        assert os.readlink(os.path.join(folder, "gone")) == "nowhere"
    assert not os.path.exists(folder)


def test_no_project_is_written_through_a_link_of_another(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / "lib").symlink_to(tmp_path / "elsewhere")
    with merged(Workspace({str(project): "", str(project / "sub"): "lib"})) as folder:
        assert tree(os.path.join(folder, "lib")) == ["a.py"]
    assert tree(tmp_path / "elsewhere") == []


def test_a_file_does_not_go_into_the_folder_that_has_its_name(project: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("a file")
    with pytest.raises(WorkspaceError, match="a folder of another project"):
        copy_into(Workspace({str(project): "", str(tmp_path / "sub"): "./"}), str(tmp_path / "into"))


def test_a_project_mapped_into_another_overwrites_its_files_in_any_order(project, tmp_path):
    (tmp_path / "a.py").write_text("over")
    given = {str(tmp_path / "a.py"): "sub", str(project): "."}
    for projects in (given, dict(reversed(given.items()))):
        with merged(in_order(projects)) as folder:
            assert (Path(folder) / "sub" / "a.py").read_text() == "over"


@pytest.mark.parametrize("name", ["", "run.sh"])
def test_a_project_that_has_changed_since_is_not_copied(project: Path, name: str) -> None:
    path = str(project / name) if name else str(project)
    digests = {path: project_digest(path)}
    with merged(Workspace({path: "lib/"}), digests):
        pass
    (project / "run.sh").write_text("changed")
    with pytest.raises(WorkspaceError, match="has changed"), merged(Workspace({path: "lib/"}), digests):
        pass


@pytest.mark.parametrize("target", ["..", "../x", "/etc", "a/../../b"])
def test_a_project_cannot_leave_the_workspace(project: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "into").mkdir()
    with pytest.raises(WorkspaceError, match="outside"):
        copy_into(Workspace({str(project): target}), str(tmp_path / "into"))


def test_a_file_address_is_its_path(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    for number, address in enumerate((f"file://{project}", "file://.")):
        into = tmp_path / f"into{number}"
        into.mkdir()
        copy_into(Workspace.from_str(address), str(into))
        assert tree(into) == FILES


@pytest.mark.parametrize("scheme", ["s3", "memory", "https"])
def test_an_address_elsewhere_is_refused_by_its_scheme(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(WorkspaceError, match=f"from {scheme}://"):
        copy_into(Workspace.from_str(f"{scheme}://bucket/a"), str(tmp_path))


def test_a_directory_workspace_needs_a_folder_that_is_not_there(project: Path, tmp_path: Path) -> None:
    role = Role("r", "before")
    DirWorkspaceMixin().build_workspace_and_update_role(role, str(project), {})
    with pytest.raises(InvalidRunConfigException):
        DirWorkspaceMixin().build_workspace_and_update_role(role, str(project), {"job_dir": str(tmp_path)})
    assert role.image == "before"
    assert not (tmp_path / "run.sh").exists()


def test_a_temporary_workspace_is_a_fresh_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(project.parent))
    roles = [Role("r", "x"), Role("r", "x")]
    for role in roles:
        TmpDirWorkspaceMixin().build_workspace_and_update_role2(role, str(project), {})
    assert len({role.image for role in roles}) == 2
    assert [tree(role.image) for role in roles] == [FILES] * 2
