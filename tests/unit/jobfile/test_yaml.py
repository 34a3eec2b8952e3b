"""YAML: scalars by the 1.2 core schema, anchors and merges within bounds, one parser's verdict."""

import math
from typing import Any

import pytest

from launcher.jobfile.text.document import Document, Source
from launcher.jobfile.text.yaml import parse_pure, parse_yaml, resolve_plain


def parse(text: str) -> Document:
    return parse_yaml(Source("f.yaml", "yaml", text))


def value(text: str) -> Any:
    document = parse(text)
    assert document.problems == []
    return document.value


def problems(text: str) -> list[str]:
    document = parse(text)
    return [
        f"{found.span.line}:{found.span.column} {found.code}: {found.message}"
        for found in document.problems
        if found.span
    ]


@pytest.mark.parametrize(("text", "expected"), [
    ("no", "no"), ("on", "on"), ("yes", "yes"), ("22:30", "22:30"), ("2026-01-02", "2026-01-02"),
    ("1_000", "1_000"), ("0b11", "0b11"), ("=", "="), ("017", 17), ("+5", 5), ("-3", -3), ("0o17", 15),
    ("0x1F", 31), ("-0x1F", "-0x1F"), ("3.10", 3.1), ("1e3", 1000.0), (".5", 0.5), ("1.", 1.0),
    ("-.inf", -math.inf), ("~", None), ("", None), ("Null", None), ("True", True), ("FALSE", False),
    ("tRUE", "tRUE"), (".", "."), ("-", "-"), ("1.2.3", "1.2.3"), ("9" * 500, "9" * 500),
])  # fmt: skip
def test_plain_scalars_follow_the_core_schema(text: str, expected: object) -> None:
    found = resolve_plain(text)
    assert found == expected
    assert type(found) is type(expected)
    assert math.isnan(resolve_plain(".nan"))


def test_quotes_and_the_str_tag_make_text() -> None:
    assert value("a: \"1\"\nb: 'true'\nc: !!str 3.10\nd: !!seq [1]\ne: !!map {x: 1}\n") == {
        "a": "1", "b": "true", "c": "3.10", "d": [1], "e": {"x": 1},
    }  # fmt: skip


def test_anchors_and_merge_keys_are_resolved() -> None:
    text = "x: &a {k: 1, l: 2}\ny: &b {l: 3, m: 4}\nz:\n  l: 9\n  <<: [*a, *b]\nw: {<<: *a, k: 5}\nv: *a\n"
    assert value(text) == {
        "x": {"k": 1, "l": 2}, "y": {"l": 3, "m": 4}, "z": {"l": 9, "k": 1, "m": 4}, "w": {"k": 5, "l": 2},
        "v": {"k": 1, "l": 2},
    }  # fmt: skip


def test_a_merged_value_is_placed_where_it_is_written() -> None:
    document = parse("x: &a {k: 1}\nz:\n  <<: *a\n")
    _, start, end = document.value_range(("z", "k"))
    assert document.source.text[start:end] == "1"
    assert document.source.position(start) == (1, 11)


def test_raw_text_of_a_number_is_without_its_anchor() -> None:
    assert parse("a: &x 3.10\nb: *x\n").raw(("b",)) == "3.10"


@pytest.mark.parametrize(("text", "expected"), [
    ("a: !thing {b: 1}\n", ["1:4 yaml-syntax"]), ("a: &x [*x]\n", ["1:8 yaml-syntax"]),
    ("a: \x07\n", ["1:4 yaml-syntax"]), ('a: "\\ud800"\n', ["1:4 yaml-syntax"]),
    ("a: &a {k: 1}\nb: {<<: [" + "*a, " * 9 + "]}\n", ["2:5 too-large"]),
])  # fmt: skip
def test_features_of_yaml_that_job_files_do_not_have_are_reported_at_their_place(text, expected):
    assert [line.split(": ")[0] for line in problems(text)] == expected


STEP = "[" * 40 + "1" + "]" * 40
BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(("text", "problem"), [
    ("a: " + "[" * 64 + "]" * 64, "1:67 too-large: values are nested deeper than 64 levels"),
    (f"a: &a {STEP}\nb: {'[' * 40}*a{']' * 40}\n", "too-large: values are nested deeper than 64 levels"),
    (f"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{BOMB}", "too-large: the file holds more than 20,000 values"),
], ids=["depth", "depth of aliases", "aliases, as often as they are used"])  # fmt: skip
def test_the_size_of_yaml_is_bounded(text: str, problem: str) -> None:
    [found] = problems(text)
    assert found.endswith(problem)
    assert not problems("a: " + "[" * 63 + "]" * 63)


def test_a_chain_of_merge_keys_costs_nothing() -> None:
    chain = ["x0: &x0 {k: 1}"]
    chain += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 8)}], k{n}: 1}}" for n in range(1, 60)]
    document = parse("\n".join(chain))
    assert document.value is None or len(document.value) == 60  # either way, at once


CORPUS = [
    "a: 1\nb: [x, {c: d}]\n",
    "a: |\n  text\n\n  more\nb: >-\n  folded\n  text\nc: 'it''s'\n",
    'a: "x\\n\\u00e9\\x41"\n',
    "a:\n- b\n- c:\n    d\n",
    "{a: 1, b: [1, 2], 'c': \"d\"}\n",
    "a: {image: python:3.12}\n",
    "a: [http://x:80, b]\n",
    "a: &x {b: 1}\nc: *x\n",
    "a: &x:y {b: 1}\nc: *x:y\n",
    "a:\tb\n",
    "a: b\x85c\n",
    "a: \ufeffb\n",
    "? a\n: b\n",
    "a: #c\n  b\n",
    "a: - b\n",
    "a: b: c\n",
    "a: [b\n",
    "a: 'b\n",
    "a: @b\n",
    "--- {a: 1}\n...\n",
    "# only\n",
    "a: !!str\nb: !!str 1\n",
    'a: "\\ud83d\\ude00"\n',
    "é: ü\n😀: [名前]\n",
]


@pytest.mark.parametrize("text", CORPUS)
def test_both_parsers_give_one_verdict_and_the_same_places(text: str) -> None:
    source = Source("f.yaml", "yaml", text)
    fast, judge = parse_yaml(source), parse_pure(source)
    assert fast.value == judge.value
    assert fast.problems == judge.problems
    for path in _paths(fast.value):
        assert fast.key_range(path) == judge.key_range(path)
        assert fast.value_range(path) == judge.value_range(path)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, part in parts for inner in _paths(part, (*path, key)))]
