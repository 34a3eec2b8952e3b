"""The canonical text of job files: each case of `cases.txt` becomes the text below it, or stays as it is.

A case begins with `@ yaml`, `@ toml` or `@ launcher.toml`; `@ becomes` is above the text that it becomes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.jobfile.format import Unformattable, format_text
from launcher.jobfile.text.document import Source, source_of
from launcher.jobfile.text.parse import parse
from tests.unit.jobfile.test_compile import FULL_TOML


def read(text: str, name: str) -> Source:
    source = source_of(name, text.encode())
    assert isinstance(source, Source)
    return source


def formatted(text: str, name: str = "job.launcher.yaml") -> str:
    """Return the canonical text of a job file; a second run must not change it."""
    source = read(text, name)
    document = parse(source)
    assert document.problems == []
    result = format_text(source, document)
    again = read(result, name)
    assert format_text(again, parse(again)) == result
    return result


def cases() -> Iterator[object]:
    text = Path(__file__).with_name("cases.txt").read_text()
    for about, group in re.findall(r"(?ms)^## (.*?)\n(.*?)(?=^## |\Z)", text):
        for kind, before, after in re.findall(
            r"(?ms)^@ (yaml|toml|launcher\.toml)\n(.*?)(?:^@ becomes\n(.*?))?\n*(?=^@ (?!becomes)|\Z)", group
        ):
            name = kind if kind == "launcher.toml" else f"job.launcher.{kind}"
            after = after or before
            before, after = (text.rstrip("\n") + "\n" for text in (before, after))
            yield pytest.param(name, before, after, id=f"{kind}: {about}")


@pytest.mark.parametrize(("name", "before", "after"), [*cases()])
def test_a_job_file_has_one_canonical_text(name: str, before: str, after: str) -> None:
    assert formatted(before, name) == after


def test_windows_line_ends_stay_and_document_marks_go() -> None:
    assert formatted("---\r\nname: a\r\nversion: 1\r\n...\r\n") == "version: 1\r\nname: a\r\n"


def test_a_key_after_a_text_block_with_kept_line_ends_adds_no_line_to_the_block() -> None:
    text = formatted("description: |+\n  a\n\nname: job\n\nversion: 1\n")
    assert text == "version: 1\nname: job\ndescription: |+\n  a\n\n"


def test_the_example_of_the_whole_language_is_stable_once_formatted() -> None:
    formatted(FULL_TOML, "job.launcher.toml")


@pytest.mark.parametrize(("text", "what"), [
    ("? name\n: job\n", "`?`"),
    ("--- # about\nname: job\n", "comment"),
    ("&all\nname: job\n", "anchor"),
    ("metadata: [\n  # nothing\n]\n", "comment"),
])  # fmt: skip
def test_a_file_without_a_canonical_form_is_refused_with_the_place(text: str, what: str) -> None:
    with pytest.raises(Unformattable, match=r"^job\.launcher\.yaml:1:\d+: ") as error:
        formatted(text)
    assert what in str(error.value)
