"""The schemas, the generated pages and the picture of the docs are what the scripts write today."""

import re
import runpy
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = list(runpy.run_path(str(ROOT / "scripts" / "reference.py"))["pages"]())


@pytest.mark.parametrize(("path", "text"), PAGES, ids=[path.stem for path, _ in PAGES])
def test_a_generated_file_is_up_to_date(path, text):
    assert path.read_text() == text, "run scripts/reference"


def test_every_published_schema_is_generated():
    assert {*(ROOT / "schemas").iterdir()} <= {path for path, _ in PAGES}


def test_the_list_for_programs_has_a_line_on_every_page_of_the_docs():
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", (ROOT / "docs" / "llms.txt").read_text(), re.M)
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {*listed} == set()


@pytest.mark.slow
def test_the_picture_shows_what_the_commands_print():
    script = runpy.run_path(str(ROOT / "scripts" / "picture.py"))
    assert words(script["PICTURE"].read_text()) == words(script["picture"]()), "run scripts/picture"


@pytest.mark.slow
def test_the_picture_of_top_shows_why_jobs_wait_and_have_failed():
    """Times differ from run to run, and with them the rest of its texts."""
    script = runpy.run_path(str(ROOT / "scripts" / "picture.py"))
    for svg in (script["TOP"].read_text(), script["picture_of_top"]()):
        text = unescape(" ".join(words(svg))).replace("\xa0", " ")
        for reason in ("restart 1 of 3", "1st in line for 1 core", "waits for train", "No module named"):
            assert reason in text, "run scripts/picture"


def words(svg: str) -> list[str]:
    """Return the texts of a picture; how they are drawn is up to the library."""
    return re.findall(r">([^<>]+)</text>", svg)
