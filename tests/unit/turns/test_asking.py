"""The ask of an app: its sums, and the tables that decide its turn."""

import os
from pathlib import Path

import pytest

from launcher.specs import AppDef, Resource, Role
from launcher.turns.machine import Machine, ask_of

MACHINE = Machine(cpu=4, memory_mb=1024, gpus=("0", "1"))


def app(gpu: int = 0) -> AppDef:
    role = Role(name="main", image="", num_replicas=2, resource=Resource(cpu=1, gpu=gpu, memMB=100))
    return AppDef(name="app", roles=[role])


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("LAUNCHER_SLOTS", raising=False)
    return tmp_path


def test_gpus_are_dealt_in_a_table_that_the_state_folders_of_a_user_share(folders, monkeypatch):
    one = ask_of(app(gpu=1), "app-1", MACHINE)
    monkeypatch.setenv("LAUNCHER_HOME", str(folders / "other"))
    other = ask_of(app(gpu=1), "app-1", MACHINE)
    assert one.table != other.table
    assert one.gpu_table == other.gpu_table
    assert Path(one.gpu_table).is_relative_to(folders / "run")
    assert os.path.isdir(one.gpu_table)
    assert (one.gpus, one.devices) == (2, ("0", "1"))


def test_an_app_without_gpus_has_one_table() -> None:
    ask = ask_of(app(), "app-1", MACHINE)
    assert (ask.cpu, ask.memory_mb, ask.gpus, ask.devices) == (2, 200, 0, ())
    assert (ask.gpu_table, len(ask.tables)) == ("", 1)
