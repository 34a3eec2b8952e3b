"""Every page of the docs is a story that works, in an empty folder and a home of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.snippets import blocks, tell

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty current folder; `launcher` on PATH."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "launcher"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m launcher "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_of_a_page_works_in_its_order(page, empty_folder):
    tell(blocks(page.read_text()))


def test_readme_leads_to_every_page():
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES if f"(docs/{page.name})" not in readme] == []
