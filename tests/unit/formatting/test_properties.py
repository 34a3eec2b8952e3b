"""Formatting any file keeps its meaning and every comment, and leaves nothing to format."""

import pytest
from hypothesis import assume, given, strategies as st

from launcher.jobfile.format import Unformattable, format_text
from launcher.jobfile.text.document import Document, Source, source_of
from launcher.jobfile.text.parse import parse
from tests.unit.formatting.strategies import yaml_files
from tests.unit.formatting.test_format import read
from tests.unit.jobfile.test_fuzz import damaged


def meaning(document: Document) -> object:
    """Return the data of a job file without the order of the fields that the formatter orders."""
    value = dict(document.value or {})
    roles = value.pop("roles", {})
    names = list(roles) if isinstance(roles, dict) else None
    own = [
        (name, list(role.get("env", {})) if isinstance(role.get("env", {}), dict) else None)
        for name, role in (roles.items() if isinstance(roles, dict) else ())
        if isinstance(role, dict)
    ]
    return names, own, repr(sorted_keys(value)), repr(sorted_keys(roles))


def sorted_keys(value: object) -> object:
    if isinstance(value, dict):
        return sorted((key, sorted_keys(inner)) for key, inner in value.items())
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


def check(source: Source, document: Document) -> None:
    result = format_text(source, document)
    again = read(result, source.file)
    after = parse(again)
    assert after.problems == []
    assert meaning(after) == meaning(document)
    assert format_text(again, after) == result
    assert all(line == line.rstrip() or "|" in result or ">" in result for line in result.splitlines())


@pytest.mark.slow
@given(yaml_files())
def test_formatting_keeps_every_comment_in_any_style(text: str) -> None:
    source = read(text, "job.launcher.yaml")
    document = parse(source)
    assume(not document.problems)
    check(source, document)
    result = format_text(source, document)
    assert sorted(word for word in result.split() if word.startswith("#") and word[1:].isdigit()) == sorted(
        word for word in text.split() if word.startswith("#") and word[1:].isdigit()
    )


@given(damaged(), st.sampled_from(["f.launcher.yaml", "f.launcher.toml"]))
def test_a_damaged_file_is_refused_or_keeps_its_meaning(data: bytes, name: str) -> None:
    source = source_of(name, data)
    if not isinstance(source, Source):
        return
    document = parse(source)
    if document.problems or not document.value:
        return
    try:
        check(source, document)
    except Unformattable:
        pass
