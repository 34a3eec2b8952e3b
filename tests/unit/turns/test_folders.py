"""The folders of the tables belong to this user."""

import os
from pathlib import Path

import pytest

from launcher.errors import StateError
from launcher.turns.machine import gpu_table, gpu_table_folder, slots_table, table_folder

TABLES = pytest.mark.parametrize(
    ("variable", "path", "make"),
    [("LAUNCHER_SLOTS", slots_table, table_folder), ("XDG_RUNTIME_DIR", gpu_table, gpu_table_folder)],
    ids=["slots", "gpus"],
)


@TABLES
def test_a_table_is_made_for_its_user_alone(tmp_path: Path, monkeypatch, variable, path, make) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "with a space"))
    assert make() == path() == make()
    assert os.stat(path()).st_mode & 0o077 == 0


@TABLES
def test_a_symbolic_link_is_no_table_even_where_it_leads_to_one(tmp_path, monkeypatch, variable, path, make):
    monkeypatch.setenv(variable, str(tmp_path / "real"))
    real = Path(make())
    root = tmp_path / "real"
    monkeypatch.setenv(variable, str(tmp_path / "link"))
    link = tmp_path / "link"
    if variable == "XDG_RUNTIME_DIR":  # the folder below it is ours
        link.mkdir()
        link, root = link / "launcher", root / "launcher"
    link.symlink_to(root)
    assert os.path.isdir(path())
    with pytest.raises(StateError, match="symbolic link"):
        make()
    assert real.is_dir()


@TABLES
def test_a_folder_that_others_can_write_is_no_table(tmp_path, monkeypatch, variable, path, make):
    monkeypatch.setenv(variable, str(tmp_path / "open"))
    make()
    (tmp_path / "open" / ("launcher" if variable == "XDG_RUNTIME_DIR" else "")).chmod(0o777)
    with pytest.raises(StateError, match="other users can write"):
        make()


@TABLES
def test_a_table_that_cannot_be_made_names_its_variable(tmp_path, monkeypatch, variable, path, make):
    monkeypatch.setenv(variable, str(tmp_path / "root"))
    file = Path(path()).parent
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text("in the way")
    with pytest.raises(StateError) as error:
        make()
    assert f"set {variable} to a folder" in str(error.value.hint)


def test_a_link_in_place_of_the_gpu_table_is_not_to_be_followed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "launcher").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError) as error:
        gpu_table_folder()
    assert "of your own" in str(error.value.hint)
    assert not (tmp_path / "elsewhere").exists()
