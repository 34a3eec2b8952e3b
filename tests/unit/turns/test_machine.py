"""A machine: its cores, memory and GPUs, the ask of an app, and the folders of the tables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import paths
from launcher.errors import StateError, UsageError
from launcher.specs import AppDef, Resource, Role
from launcher.turns import machine as machine_
from launcher.turns.machine import (
    Machine,
    ask_of,
    count_gpus,
    gpu_names,
    gpu_table,
    gpu_table_folder,
    gpus,
    machine,
    slots_table,
    table_folder,
)


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of control groups; this process is in `a/b` of version 2, which limits nothing yet."""
    real = machine_._read
    monkeypatch.setattr(machine_, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(
        machine_, "_read", lambda path: "0::/a/b" if path == "/proc/self/cgroup" else real(path)
    )
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(("given", "visible", "expected"), [
    ("4", None, ("0", "1", "2", "3")), ("0", None, ()), ("4", "2,0", ("2", "0")), ("2", "0,7", ("0",)),
    ("4", "1,-1,2", ("1",)), ("4", "", ()), ("4", "GPU-8f,GPU-8f,1", ("GPU-8f", "1")),
])  # fmt: skip
def test_only_the_gpus_that_the_environment_allows_may_be_dealt(given, visible, expected, monkeypatch):
    monkeypatch.setenv("LAUNCHER_GPUS", given)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus() == expected


@pytest.mark.parametrize("given", ["four", "-1", "1.5"])
def test_a_wrong_number_of_gpus_is_refused_with_a_hint(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHER_GPUS", given)
    with pytest.raises(UsageError, match="no number of GPUs") as failed:
        gpus()
    assert failed.value.hint


def test_the_gpu_driver_is_asked_once(gpu_driver) -> None:
    asked = gpu_driver("one", "two")
    assert (count_gpus(), gpu_names()) == (2, ("one", "two"))
    assert asked.read_text() == "\n"


def test_without_the_tool_of_the_driver_its_devices_count(tmp_path, monkeypatch):
    names = ["nvidia0", "nvidia1", "nvidia7", "nvidiactl", "nvidia-uvm", "tty7", "sda"]
    monkeypatch.setattr(machine_.os, "listdir", lambda folder: names if folder == "/dev" else [])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (count_gpus(), gpu_names()) == (3, ())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot bind processes to cores")
def test_only_the_processors_that_this_process_may_use_count() -> None:
    script = (
        "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]);"
        " from launcher.turns.machine import machine; print(machine(with_gpus=False).cpu)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 1.0


def test_a_quota_of_any_group_above_counts(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert machine(with_gpus=False).cpu == 8
    (cgroups / "a" / "b" / "cpu.max").write_text("max 100000\n")
    (cgroups / "a" / "cpu.max").write_text("150000 100000\n")
    assert machine(with_gpus=False).cpu == 1.5


def test_a_memory_limit_of_any_group_above_counts(cgroups: Path) -> None:
    whole = machine(with_gpus=False).memory_mb
    assert whole > 64
    (cgroups / "a" / "b" / "memory.max").write_text("max\n")
    (cgroups / "a" / "memory.max").write_text(str(64 * 1024 * 1024))
    assert machine(with_gpus=False).memory_mb == 64


def test_limits_of_control_groups_of_version_1_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = machine_._read
    table = "4:memory:/m\n2:cpu,cpuacct:/c\n1:name=systemd:/"
    monkeypatch.setattr(machine_, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(machine_, "_read", lambda path: table if path == "/proc/self/cgroup" else real(path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for folder, name, text in (
        ("cpu,cpuacct/c", "cpu.cfs_quota_us", "50000"),
        ("cpu,cpuacct/c", "cpu.cfs_period_us", "100000"),
        ("memory/m", "memory.limit_in_bytes", str(32 * 1024 * 1024)),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    found = machine(with_gpus=False)
    assert (found.cpu, found.memory_mb) == (0.5, 32)


# -- the ask of an app ---------------------------------------------------------------------------------------

MACHINE = Machine(cpu=4, memory_mb=1024, gpus=("0", "1"))


def app(gpu: int = 0) -> AppDef:
    role = Role(name="main", image="", num_replicas=2, resource=Resource(cpu=1, gpu=gpu, memMB=100))
    return AppDef(name="app", roles=[role])


def test_gpus_are_dealt_in_a_table_that_the_state_folders_of_a_user_share(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    one = ask_of(app(gpu=1), "app-1", MACHINE)
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    other = ask_of(app(gpu=1), "app-1", MACHINE)
    assert one.table != other.table
    assert one.gpu_table == other.gpu_table
    assert Path(one.gpu_table).is_relative_to(tmp_path / "run")
    assert os.path.isdir(one.gpu_table)
    assert (one.gpus, one.devices) == (2, ("0", "1"))


def test_a_relative_runtime_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The specification of XDG says so. Supervisors run in `/`, and each client in a folder of its own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    assert paths.runtime() == f"/tmp/launcher-{os.geteuid()}"


def test_an_app_without_gpus_has_one_table() -> None:
    ask = ask_of(app(), "app-1", MACHINE)
    assert (ask.cpu, ask.memory_mb, ask.gpus, ask.devices) == (2, 200, 0, ())
    assert (ask.gpu_table, len(ask.tables)) == ("", 1)


# -- the folders of the tables -------------------------------------------------------------------------------

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
