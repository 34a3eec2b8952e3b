"""README's section on job files is one story: files are written, commands run, messages seen."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.snippets import blocks, shell, tell
from tests.unit.test_readme import WHOLE, checkout

__all__ = ["checkout"]  # the fixture

SECTION = re.search(r"^## Job files$.*?(?=^## )", WHOLE, re.M | re.S)
BLOCKS = blocks(SECTION[0] if SECTION else "")


def test_the_section_begins_with_init():
    assert BLOCKS[0][1].startswith("launcher init ")


def test_every_snippet_works_in_its_order(checkout):
    tell(BLOCKS)


def test_the_jobs_shown_have_the_names_that_the_text_says(checkout):
    [text] = [text for kind, text in BLOCKS if "matrix:" in text]
    Path("train.launcher.yaml").write_text(text)
    command = ["launcher", "plan", "train.launcher.yaml"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(f"`{name}`" in WHOLE and f"{name} " in names for name in ("train-0p1", "train-0p01"))


def test_the_files_shown_are_in_their_canonical_form(checkout):
    for kind, text in BLOCKS:
        if kind == "yaml" and "wrong" not in text:
            Path("shown.launcher.yaml").write_text(text)
            shell("launcher fmt --check shown.launcher.yaml")
