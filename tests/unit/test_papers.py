"""ARCHITECTURE and CONTRIBUTING name only things that exist."""

import json
import re
import runpy
import subprocess
from functools import cache
from pathlib import Path

import pytest

from launcher.specs.attempt import ENDED_STATES, LIVE_STATES
from tests.unit.test_layers import RANK

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ("ARCHITECTURE.md", "CONTRIBUTING.md")
PLACEHOLDER = re.compile(r"NAME|KIND")
CODE = [path for folder in ("launcher", "tests", "scripts") for path in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_path_that_a_paper_names_exists(paper):
    text = (ROOT / paper).read_text()
    named = re.findall(r"`((?:launcher|tests|scripts|examples|schemas|\.ci)/[\w./-]*)", text)
    named += [path for path in re.findall(r"\]\(([^)]+)\)", text) if "://" not in path]
    assert named
    missing = [path for path in named if not PLACEHOLDER.search(path) and not (ROOT / path).exists()]
    assert missing == [], f"{paper} names files that are not there"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_module_that_is_named_by_its_last_folders_exists(paper):
    named = [text for text in quoted(paper) if re.fullmatch(r"[\w./]+\.py", text)]
    missing = [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in CODE)]
    assert [name for name in missing if not PLACEHOLDER.search(name)] == [], (
        f"{paper} names no module of ours"
    )


@pytest.mark.parametrize("paper", PAPERS)
def test_every_class_function_and_field_that_is_named_is_in_the_code(paper):
    names = [text for text in quoted(paper) if re.fullmatch(r"[A-Za-z_][\w.]*(?<!\.py)", text)]
    named = {word for name in names for word in name.split(".")}
    missing = [name for name in named - words_of_the_code() if not PLACEHOLDER.search(name)]
    assert missing == [], f"{paper} names what the code does not have"


@cache
def words_of_the_code() -> set[str]:
    return {"", *re.findall(r"\w+", "".join(path.read_text() for path in CODE))}


def quoted(paper: str) -> list[str]:
    """Return the texts in single backticks, outside of blocks."""
    text = re.sub(r"```.*?```", "", (ROOT / paper).read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`]+)`", text)


def test_the_layers_of_architecture_are_the_layers_of_the_tests():
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    documented = {
        path.removesuffix(".py").rpartition("/")[2]: int(rank)
        for rank, names in rows
        for path in re.findall(r"`([\w/.]+)`", names)
    }
    assert documented.items() <= RANK.items()
    assert {name for name, rank in RANK.items() if rank > 1} <= documented.keys()


def test_architecture_names_every_state_of_an_attempt():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert [state for state in (*LIVE_STATES, *ENDED_STATES) if f" {state}" not in text] == []


def test_scripts_can_be_run_from_anywhere(tmp_path):
    scripts = {path.stem for path in (ROOT / "scripts").glob("[a-z]*")}
    named = re.findall(r"^scripts/(\w+) ", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert scripts == set(named)
    words = [ROOT / "scripts" / "test", "--version"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "pytest" in done.stdout + done.stderr) == (0, True)


def test_the_simulation_runs_many_jobs_and_leaves_none_to_run_again(capsys):
    runpy.run_path(str(ROOT / "scripts" / "simulate.py"))["simulate"](1_500)
    heading, *parts = capsys.readouterr().out.strip().splitlines()
    assert heading == "1,500 jobs on 1,000 nodes: 2 steps of the clock"
    assert {"plan all new", "record ends", "take turns on one machine"} < {
        line[2:28].rstrip() for line in parts
    }


def test_the_workflow_has_every_declared_python():
    declared = re.findall(r'Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert f"python: {json.dumps(declared)}" in workflow
