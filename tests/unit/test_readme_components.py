"""README's section on components is one story: a file is written, commands run, messages seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.snippets import blocks, shell, tell
from tests.unit.test_readme import WHOLE, checkout

__all__ = ["checkout"]  # the fixture

SECTION = re.search(r"^## Components$.*?(?=^## )", WHOLE, re.M | re.S)
BLOCKS = blocks(SECTION[0] if SECTION else "")


@pytest.mark.slow
def test_every_snippet_works_in_its_order(checkout):
    assert [kind for kind, _ in BLOCKS].count("sh") > 2
    tell(BLOCKS)


def test_the_job_file_shown_is_in_its_canonical_form(checkout):
    tell([block for block in BLOCKS if block[0] in ("python", "yaml")])
    assert Path("lr.launcher.yaml").exists()
    shell("launcher fmt --check lr.launcher.yaml")
