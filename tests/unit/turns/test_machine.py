"""The cores, memory and GPUs that are found on a machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.errors import UsageError
from launcher.turns import machine as machine_
from launcher.turns.machine import count_gpus, gpu_names, gpus, machine


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


@pytest.mark.parametrize(
    ("given", "visible", "expected"),
    [
        ("4", None, ("0", "1", "2", "3")),
        ("0", None, ()),
        ("4", "2,0", ("2", "0")),
        ("2", "0,7", ("0",)),
        ("4", "1,-1,2", ("1",)),
        ("4", "", ()),
        ("4", "GPU-8f,GPU-8f,1", ("GPU-8f", "1")),
    ],
)
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


def test_the_driver_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    lines = "GPU 0: one (UUID: GPU-1)\\nGPU 1: two (UUID: GPU-2)\\n"
    tool.write_text(f"#!/bin/sh\necho >>{asked}\nprintf '{lines}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
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
