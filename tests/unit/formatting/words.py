"""Short words for the tests of the formatter."""

import textwrap

from launcher.jobfile.format import format_text
from launcher.jobfile.text.document import Source, source_of
from launcher.jobfile.text.parse import parse


def read(text: str, name: str) -> Source:
    source = source_of(name, text.encode())
    assert isinstance(source, Source)
    return source


def formatted(text: str, *, name: str = "job.launcher.yaml") -> str:
    """Return the canonical text of a job file, which may be indented; a second run must not change it."""
    source = read(textwrap.dedent(text).lstrip("\n"), name)
    document = parse(source)
    assert document.problems == []
    result = format_text(source, document)
    again = read(result, name)
    assert format_text(again, parse(again)) == result
    return result


def toml(text: str) -> str:
    return formatted(text, name="job.launcher.toml")


def block(text: str) -> str:
    """Return a text as it is written in a test, without its indentation."""
    return textwrap.dedent(text).lstrip("\n")
