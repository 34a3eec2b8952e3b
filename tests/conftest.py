"""Every test has its own LAUNCHER_HOME and HOME, and fails when it leaves a process behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.engines import required
from tests.scenario import Scenario

ROOT = Path(__file__).resolve().parent.parent
KEPT = {"LAUNCHER_REQUIRE"}
SETTLE_S = 3.0  # an app whose last replica has ended needs a moment to write that down


def pytest_configure() -> None:
    required()  # a misspelt engine must not pass as "nothing required"


@pytest.fixture(autouse=True)
def launcher_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A LAUNCHER_HOME and HOME below tmp_path (short names: socket paths end at 107 bytes); clean settings.

    Afterwards no process may be left that works for this LAUNCHER_HOME.
    """
    home = tmp_path / "l"
    for name in [name for name in os.environ if name.startswith("LAUNCHER_") and name not in KEPT]:
        monkeypatch.delenv(name)
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "PYTHONSTARTUP",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "u").mkdir()
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path / "u"))
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "u" / name.lower()))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # subprocesses run this checkout, whatever is installed
    yield home
    _fail_on_leftovers(str(home))


def _fail_on_leftovers(home: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while (left := processes.of_home(home)) and time.monotonic() < deadline:
        processes.gone(left, timeout_s=deadline - time.monotonic())
    if not left:
        return
    report = "\n".join(map(processes.describe, left))
    while left := processes.of_home(home):  # or the tests that follow suffer from them
        processes.kill(left)
        processes.gone(left, timeout_s=SETTLE_S)
    pytest.fail(f"the test left processes behind:\n{report}")


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path) -> Iterator[Scenario]:
    """The words of scenarios, in an empty working directory of its own."""
    work = tmp_path / "w"
    work.mkdir()
    with Scenario(work, launcher_home) as words:
        yield words
