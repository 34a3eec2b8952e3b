"""The tests' own safety net: leftovers fail a test, a required engine is no reason to skip."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import lanes, processes
from tests.engines.docker import Daemon
from tests.engines.images import SHELL_IMAGE
from tests.forkserver import server

ROOT = Path(__file__).resolve().parents[2]

LEAVES_ONE_BEHIND = """
import subprocess
from tests import conftest
def test_it():
    conftest.SETTLE_S = 0.5  # it never ends by itself
    subprocess.Popen(["sh", "-c", "while :; do sleep 9; done"], start_new_session=True)
"""
NEEDS_NOTHING_THERE = """
from tests import engines
def test_it(monkeypatch):
    monkeypatch.setitem(engines.PROBES, "git", lambda: "there is no git")
    engines.require("git")
"""


def run_tests(folder, text, **environ):
    """Run a test file under our conftest, in another process; return its exit code and output."""
    (folder / "test_it.py").write_text(text)
    settings = ["-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    options = ["-n", "0", "-rs", "-W", "ignore", "-m", "", *settings]
    got = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={folder / 'b'}", str(folder / "test_it.py")],
        capture_output=True, text=True, check=False, env={**os.environ, **environ},
    )  # fmt: skip
    return got.returncode, got.stdout + got.stderr


class Item:
    """A test with this time limit in seconds; 0: the usual limit."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return pytest.mark.timeout(self.limit_s).mark if self.limit_s else None


def test_each_worker_begins_with_its_part_of_the_longest_tests_and_none_is_lost():
    items: Any = [Item(limit) for limit in (0, 0, 1800, 0, 600, 0, 900, 0, 1800, 0, 0)]
    dealt = lanes.dealt(items, 3)
    assert sorted(map(id, dealt)) == sorted(map(id, items))
    assert [dealt[at].limit_s for at in (0, 3, 7)] == [1800, 900, 1800]
    assert [each.limit_s for each in lanes.dealt(items[:3], 8)] == [1800, 0, 0]


@pytest.mark.slow
def test_a_test_that_leaves_a_process_behind_fails_and_the_process_is_gone(tmp_path):
    code, out = run_tests(tmp_path, LEAVES_ONE_BEHIND)
    assert code == 1
    assert "left processes behind" in out
    assert "while :; do sleep 9; done" in out
    assert processes.of_home(str(tmp_path / "b" / "test_it0" / "l")) == []


@pytest.mark.slow
def test_a_missing_engine_skips_with_its_reason_unless_it_is_required(tmp_path):
    code, out = run_tests(tmp_path, NEEDS_NOTHING_THERE, LAUNCHER_REQUIRE="")
    assert code == 0
    assert "there is no git" in out
    code, out = run_tests(tmp_path, NEEDS_NOTHING_THERE, LAUNCHER_REQUIRE="git")
    assert code == 1
    assert "LAUNCHER_REQUIRE names git" in out


@pytest.mark.slow
def test_a_misspelt_requirement_stops_the_run(tmp_path):
    code, out = run_tests(tmp_path, NEEDS_NOTHING_THERE, LAUNCHER_REQUIRE="gti")
    assert code != 0
    assert "unknown gti" in out


def test_commands_of_scenarios_are_forked_from_a_loaded_interpreter(scenario, monkeypatch):
    def start_an_interpreter(*_args, **_options):
        pytest.fail("a command was started from the beginning")

    scenario.launcher("list")
    monkeypatch.setattr("tests.scenario.subprocess.run", start_an_interpreter)
    assert scenario.launcher("list").code == 0


def test_a_script_hands_its_command_to_a_loaded_interpreter_with_streams_folder_and_exit_code(scenario):
    path = scenario.folder / "launcher"
    path.write_text(server().script())
    path.chmod(0o755)
    job = scenario.job("true")
    for start in ("./launcher", "LANG=xx ./launcher"):  # the second one from the start
        ran = scenario.spawn(["bash", "-c", f"{start} validate {job.name} | cat; {start} nonsense"])
        out, err = ran.communicate()
        assert (ran.returncode, "nonsense" in err) == (64, True), err
        assert out == scenario.launcher("validate", job.name).out


def test_the_end_of_a_session_with_another_tmpdir_leaves_the_shared_images(token, tmp_path):
    ends = [sys.executable, "-c", "from tests.engines import tidy; tidy.leave([])"]
    subprocess.run(ends, env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)
    assert SHELL_IMAGE in {name for image in Daemon().images() for name in image.name.split()}
