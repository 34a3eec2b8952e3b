"""The generated pages of the docs are what `scripts/reference` writes today."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = list(runpy.run_path(str(ROOT / "scripts" / "reference.py"))["pages"]())


@pytest.mark.parametrize(("path", "text"), PAGES, ids=[path.stem for path, _ in PAGES])
def test_a_page_is_up_to_date(path, text):
    assert path.read_text() == text, "run scripts/reference"
