"""The commands of README work: every command of the tour is run, and its Python too."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forkserver import server
from tests.snippets import blocks, shell

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = blocks(README)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
FIRST, SECOND, *TOUR = COMMANDS


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of the examples as the current directory; `launcher` on PATH and in .venv/bin."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "examples", folder / "examples")
    script = folder / ".venv" / "bin" / "launcher"
    script.parent.mkdir(parents=True)
    script.write_text(server().script())
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(folder)


def test_the_first_two_commands_set_up_a_virtual_environment_inside_the_checkout():
    assert FIRST.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e . && .venv/bin/launcher ")
    assert (
        SECOND == "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]'"
        " && .venv/bin/python -m pytest"
    )


def test_the_first_command_shows_plan_output_and_success_and_keeps_the_job_the_second_time(checkout):
    ours = FIRST.rpartition(" && ")[2]
    first = shell(ours)
    assert "Plan: 1 to create" in first
    assert "hello world, this is replica 0 of 2" in first
    assert "succeeded" in first.lower()
    second = shell(ours)
    assert "1 unchanged" in second
    assert "succeeded" in second.lower()


def test_ci_runs_the_second_command_as_it_stands(tmp_path):
    """Bash runs only the lines of .ci/run that find the command, and not the command."""
    find = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("tests=")]
    got = subprocess.run(
        ["bash", "-c", f'{find[0]}; printf %s "$tests"'], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert got.stdout == SECOND


@pytest.mark.slow
def test_every_command_of_the_tour_works_in_its_order(checkout):
    assert len(TOUR) > 10
    for line in TOUR:
        command, _, comment = line.partition("  # exits ")
        shell(command, code=int(comment or 0))


@pytest.mark.slow
def test_the_python_blocks_run(checkout):
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert blocks
    for text in blocks:
        subprocess.run([sys.executable, "-c", text], check=True)


def test_the_job_file_shown_is_the_example(checkout):
    from launcher import load_job

    [shown] = [text for kind, text in BLOCKS if kind == "yaml"]
    Path("shown.launcher.yaml").write_text(shown)
    assert load_job("shown.launcher.yaml").app == load_job("examples/hello/hello.launcher.yaml").app


def test_nothing_installs_the_package_of_another_project_that_has_our_name_on_pypi():
    """`launcher` there is another project: each command to paste names `launcher-jobs`, or a path."""
    texts = [
        path for folder in ("launcher", "docs", "examples", "schemas") for path in (ROOT / folder).rglob("*")
    ]
    texts = [path for path in texts if path.suffix in (".py", ".md", ".toml", ".json", ".yaml")]
    texts += [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / ".pre-commit-hooks.yaml"]
    wrong = re.compile(
        r"pip install [^\n]*[\s'\"]launcher(?![\w-])|['\"]launcher(?:\[\w+\])? ?[@<>=~]=? ?\S*['\"]"
    )
    assert [str(path) for path in texts if wrong.search(path.read_text())] == []
    assert re.search(r'^name = "launcher-jobs"', (ROOT / "pyproject.toml").read_text(), re.M)
