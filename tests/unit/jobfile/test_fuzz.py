"""Whatever the bytes, the answer is a launch or diagnostics that can be printed."""

import tempfile
from pathlib import Path

from hypothesis import given, strategies as st

from launcher.jobfile import render
from launcher.jobfile.diagnostic import CODES
from launcher.jobfile.text.document import Document, Source, source_of
from launcher.jobfile.text.toml import parse_toml
from launcher.jobfile.text.yaml import parse_pure, parse_yaml
from tests.corpus import fuzz
from tests.unit.jobfile.test_compile import FULL, FULL_TOML
from tests.unit.jobfile.words import compile_text

PIECES = [piece.decode() for piece in fuzz.PIECES if len(piece) < 20 and piece != b"\xff"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good file with a few pieces cut out, put in or moved."""
    text = draw(st.sampled_from([FULL, FULL_TOML]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(["", *PIECES])) + text[end:]
    return text.encode()


def check(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_text(Path(folder), data, name=name)
    assert compiled.launches or compiled.errors
    render(compiled.diagnostics, color=True)
    lines = data.count(b"\n") + data.count(b"\r") + 1
    for found in compiled.diagnostics:
        assert found.code in CODES
        assert "pydantic" not in found.message + found.hint
        assert found.span is None or 1 <= found.span.line <= lines


@given(st.binary(max_size=80) | damaged(), st.sampled_from(["j.launcher.yaml", "j.launcher.toml"]))
def test_no_bytes_end_in_a_traceback(data: bytes, name: str) -> None:
    check(data, name)


@given(damaged())
def test_the_fast_parser_never_disagrees_with_the_judge(data: bytes) -> None:
    source = source_of("f.yaml", data)
    if isinstance(source, Source):
        assert repr(outcome(parse_yaml(source))) == repr(outcome(parse_pure(source)))


@given(damaged())
def test_toml_positions_never_fail_on_what_the_parser_took(data: bytes) -> None:
    source = source_of("f.toml", data)
    if isinstance(source, Source):
        document = parse_toml(source)
        for key in document.value or {}:
            _, start, end = document.key_range((key,))
            assert 0 <= start < end <= len(source.text)


def outcome(document: Document) -> object:
    return document.value, [problem.message for problem in document.problems]
