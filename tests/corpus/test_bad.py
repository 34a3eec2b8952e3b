"""Each bad file gives exactly the diagnostics that it lists."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.main import main
from launcher.jobfile import render
from launcher.jobfile.diagnostic import CODES
from tests.corpus.words import BAD, FOLDER, Found, compiled, expected, found, name_of
from tests.lanes import sampled

# What no single file can show, or only with a repository around it: see tests/unit/jobfile.
ELSEWHERE = {"dirty-tree", "no-commit", "duplicate-job", "no-job-files", "unreadable"}
ELSEWHERE |= {"needs-across-engines"}  # several files
ELSEWHERE |= {"unset-variable"}  # `validate` puts a placeholder there
ELSEWHERE |= {"component-refused", "environment-refused"}  # only where the command line forbids them

ONE_OF_A_FOLDER = {path.parent: path for path in BAD}.values()


@pytest.mark.parametrize("path", sampled(BAD, *ONE_OF_A_FOLDER), ids=name_of)
def test_a_bad_file_gives_exactly_the_diagnostics_that_it_lists(path: Path) -> None:
    result = compiled(path)
    assert [found(each) for each in result.diagnostics] == expected(path), render(result.diagnostics)
    assert result.launches or result.errors


def test_bad_files_show_every_diagnostic_code() -> None:
    shown = {each.code for path in BAD for each in expected(path)}
    assert shown == CODES.keys() - ELSEWHERE


@pytest.mark.slow
def test_validate_reports_the_same_diagnostics_for_all_bad_files_at_once(capsys, monkeypatch):
    monkeypatch.chdir(FOLDER)
    assert main(["validate", "--format", "json", "bad"]) == 6
    output = Counter(_in_short(each) for each in json.loads(capsys.readouterr().out)["diagnostics"])
    assert output == Counter(each for path in BAD for each in expected(path))


def _in_short(diagnostic: dict[str, Any]) -> Found:
    span = diagnostic["span"]
    at = f"{span['line']}:{span['column']}" if span else "-"
    return Found(diagnostic["file"], diagnostic["code"], at)


@pytest.mark.parametrize("path", sampled(BAD, *ONE_OF_A_FOLDER, every=6), ids=name_of)
def test_validate_fails_for_errors_alone_and_with_strict_for_warnings_too(path: Path) -> None:
    assert main(["validate", str(path)]) == (6 if compiled(path).errors else 0)
    assert main(["validate", "--strict", str(path)]) == 6
