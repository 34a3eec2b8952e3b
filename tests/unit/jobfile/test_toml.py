"""TOML: the same values, the same problems, and a place for every key and value."""

from collections.abc import Iterable
from typing import Any

import pytest
import tomli

from launcher.jobfile.text.document import Path, Source, Spot
from launcher.jobfile.text.toml import parse_toml
from launcher.jobfile.text.toml_positions import NotToml, scan

VALID = [
    'a = 1\nb = "x"\nc = true\n',
    "a.b.c = 1\na.b.d = 2\n",
    '"a b" = 1\n\'c.d\' = 2\n"e\\u0066" = 3\n"" = 4\n',
    "[a]\nb = 1\n[a.c]\nd = 2\n[e.f.g]\nh = 3\n[e]\ni = 4\n",
    "[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3\n[[a.e]]\nf = 4\n[[a.e]]\nf = 5\n",
    "a = [1, 2, # c\n  3,\n]\nb = [[1], [2, [3]]]\nc = []\n",
    'a = {b = 1, c.d = 2, e = {f = [1, {g = "h"}]}}\nb = {}\n',
    'a = """x\n"" y"""\nb = """"q""""\nc = \'\'\'\nraw \\ text\'\'\'\'\nd = "\\"#="\n',
    "a = 1_000\nb = 0x1F\nc = 3.10\nd = 1e3\ne = inf\nf = -nan\ng = +5\n",
    "a = 2026-01-02\nb = 2026-01-02 10:00:00\nc = 2026-01-02T10:00:00.5+01:00\nd = 10:00:00\n",
    "# only a comment",
    "\r\na = 1\r\n\r\n[b] # c\r\nc = 2\r\n",
    "  [ a . 'b' ]  \n  c . d = 1\n",
    "a = 'é😀'\n",
]


def paths(value: Any, path: Path = ()) -> list[Path]:
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(inner for key, part in parts for inner in paths(part, (*path, key)))]


def spots(spot: Spot, path: Path = ()) -> list[Path]:
    parts: list[tuple[str | int, Spot]] = [(key, entry[2]) for key, entry in (spot.entries or {}).items()]
    parts += enumerate(spot.items or [])
    return [path, *(inner for key, part in parts for inner in spots(part, (*path, key)))]


@pytest.mark.parametrize("text", VALID)
def test_the_scanner_finds_what_the_parser_found(text: str) -> None:
    assert sorted(map(str, spots(scan(text)))) == sorted(map(str, paths(tomli.loads(text))))


@pytest.mark.parametrize("text", VALID)
def test_a_value_read_alone_is_the_same_value(text: str) -> None:
    document = parse_toml(Source("f", "toml", text))
    for path in paths(document.value) if document.value else []:
        _, start, end = document.value_range(path)
        value: Any = document.value
        for segment in path:
            value = value[segment]
        if path and not isinstance(value, dict | list):
            assert repr(tomli.loads(f"x = {text[start:end]}")["x"]) == repr(value)


def test_keys_are_placed_in_headers_and_dotted_names() -> None:
    document = parse_toml(Source("f", "toml", "[a.b]\nc.d = 1\n"))
    paths = [tuple("abcd"[:n]) for n in range(1, 5)]
    found = [document.key_range(path).start for path in paths]
    assert found == [1, 3, 6, 8]


def problems(text: str) -> list[str]:
    return [
        f"{found.span.line}:{found.span.column} {found.code}: {found.message}"
        for found in parse_toml(Source("f", "toml", text)).problems
        if found.span
    ]


@pytest.mark.parametrize(("text", "expected"), [
    ("a = " + "[" * 80 + "]" * 80, "1:68 too-large: values are nested deeper than 64 levels"),
    ("a = " + "{b = " * 300 + "1" + "}" * 300, "1:320 too-large: values are nested deeper than 64 levels"),
    ("a = " + "[" * 900 + "]" * 900, "1:68 too-large: values are nested deeper than 64 levels"),
    (f"[a]\nb = 1\n[{'.'.join('a' * 66)}]\n", "3:128 too-large: values are nested deeper than 64 levels"),
    (f"a = 1\nb = [{'1, ' * 20_000}]\n", "2:59997 too-large: the file holds more than 20,000 values"),
    ("a = " + "9" * 5000, "1:5 out-of-range: this number has too many digits"),
    ("", "1:1 missing-field: the file is empty"),
])  # fmt: skip
def test_a_text_beyond_the_limits_is_reported_at_its_place(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_equal_keys_are_all_found_and_the_rest_is_checked() -> None:
    text = "a = 1\na = 2\n[b]\nc = 1\nc = 2\nd = 3\n"
    document = parse_toml(Source("f", "toml", text))
    assert problems(text) == [
        "2:1 duplicate-key: `a` stands twice in this mapping",
        "5:1 duplicate-key: `c` stands twice in this mapping",
    ]
    spans = [place.span for found in document.problems for place in found.related]
    assert [span and span.line for span in spans] == [1, 4]
    assert document.value == {"a": 1, "b": {"c": 1, "d": 3}}


@pytest.mark.parametrize(("text", "place"), [
    ("[b]\nc=1\n[b]\nd=1\n", "3:2"), ("a = {y = 1, y = 2}\n", "1:13"), ("a = 1\n[[a]]\nb = 1\n", "2:3"),
    ("a.b = 1\na = {c = 2}\n", "2:1"),
])  # fmt: skip
def test_a_table_or_key_that_stands_twice_is_reported(text: str, place: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"{place} duplicate-key")


@pytest.mark.parametrize(
    "text", ["a", "a =", "a = [", "a = {", "[a", "a = 'x", "a..b = 1", '"a = 1', "a = {b}"]
)
def test_the_scanner_gives_up_on_text_that_is_no_toml(text: str) -> None:
    with pytest.raises(NotToml):
        scan(text)
