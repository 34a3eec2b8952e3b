"""Commands print the same bytes about unchanged files whether they compile them or use a kept outcome."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from launcher.cli import jobs
from launcher.cli.main import main
from tests.corpus.words import BAD, FOLDER, GOOD, name_of
from tests.lanes import sampled

EXAMPLES = FOLDER.parents[1] / "examples"
TEXT = (("validate",), ("plan",))
DATA = (("validate", "--format", "json"), ("plan", "--format", "json"))
_OF_A_PLAN = re.compile(r'"(plan_id|created_at|expires_at|seal)": [^\n]*')
"""Each plan has an id and a time of its own."""


def output(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main([*argv])
    shown = capsys.readouterr()
    return code, _OF_A_PLAN.sub("", shown.out), shown.err


def entries() -> set[str]:
    folder = Path(os.environ["XDG_CACHE_HOME"], "launcher")
    return set(os.listdir(folder)) if folder.exists() else set()


def refuse(*args: object) -> None:
    raise AssertionError("the file was compiled again")


def check(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    commands: Sequence[tuple[str, ...]] = DATA,
) -> set[str]:
    """Run each command without the cache, with it, and from it; return those whose outcome was kept."""
    kept: set[str] = set()
    for command in commands:
        argv = (*command, str(path))
        before = entries()
        expected = output(capsys, *argv, "--no-cache")
        assert entries() == before
        assert output(capsys, *argv) == expected
        if entries() - before - {"key"}:
            kept.add(command[0])
        with monkeypatch.context() as patch:
            if command[0] in kept:
                patch.setattr(jobs, "_compiled", refuse)
            assert output(capsys, *argv) == expected
    return kept


FILES = [*GOOD, *BAD]


@pytest.mark.parametrize("path", sampled(FILES, *FILES[::40], every=6), ids=name_of)
def test_a_command_prints_the_same_with_and_without_compiling_a_file(path, capsys, monkeypatch):
    kept = check(path, capsys, monkeypatch)
    if path in GOOD and not path.name.startswith(("component", "secret")):
        assert kept == {"validate", "plan"}


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "commands"), [("good", TEXT), ("bad", TEXT[:1])])
def test_commands_print_the_same_with_and_without_compiling_a_folder(folder, commands, capsys, monkeypatch):
    check(FOLDER / folder, capsys, monkeypatch, commands)


@pytest.mark.slow
def test_commands_print_the_same_with_and_without_compiling_the_examples(tmp_path, capsys, monkeypatch):
    for folder in sorted(EXAMPLES.iterdir()):
        if folder.is_dir():
            copy = shutil.copytree(folder, tmp_path / folder.name)
            monkeypatch.chdir(copy)
            check(copy, capsys, monkeypatch, (*TEXT, *DATA))
