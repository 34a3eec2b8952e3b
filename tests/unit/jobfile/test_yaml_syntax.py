"""YAML syntax errors are reported in our words, at the place of the mistake."""

import pytest

from launcher.jobfile.text.document import Source
from launcher.jobfile.text.yaml import parse_yaml


def only(text: str) -> tuple[str, str, str]:
    """Return place, message and label of the only problem of a text."""
    (found,) = parse_yaml(Source("f.yaml", "yaml", text)).problems
    assert found.span is not None
    assert "parser says" not in found.hint
    assert found.code == "yaml-syntax"
    return f"{found.span.line}:{found.span.column}", found.message, found.label


@pytest.mark.parametrize(
    ("text", "place", "message", "label"),
    [
        ("a:\n\tb: 1\n", "2:1", "YAML does not take a tab here", "use spaces"),
        ('a: "x\nb: 2\n', "1:4", "this quote is never closed", "close it"),
        ("a: [${x}, b]\n", "1:5", "`${` needs quotes inside brackets", 'write "${…}"'),
        ("a: {b: ${{ x }}}\n", "1:8", "`${` needs quotes inside brackets", 'write "${…}"'),
        ("a: [{{ x }}]\n", "1:5", "`{{` begins a mapping in YAML, no template", ""),
        (
            "a: *.py\n",
            "1:4",
            "`*.py` repeats the value marked `&.py`, and none is marked so above",
            'put text in quotes: "*.py"',
        ),
        ("a: @x\n", "1:4", "a value without quotes cannot begin with `@`", 'put it in quotes: "@x"'),
        ("a: %x\n", "1:4", "a value without quotes cannot begin with `%`", 'put it in quotes: "%x"'),
        ("a: `x`\n", "1:4", "a value without quotes cannot begin with a backtick", 'put it in quotes: "`x`"'),
        ("a: [1, 2\nb: 3\n", "1:4", "`[` is never closed", "close it with `]`"),
        ("a: {b: 1\nc: 3\n", "1:4", "`{` is never closed", "close it with `}`"),
        ("a: [b #c\n", "1:4", "`[` is never closed", "close it with `]`"),
        ("a: foo: bar\n", "1:7", "a second `: ` on one line", 'put text with `: ` in quotes: "foo: bar"'),
        ("{a: b: c}\n", "1:6", "a second `:` in one entry", "put text with a colon in quotes"),
        ("a: 1\nbcd\nc: 2\n", "2:1", "this line is no `key: value`", "a colon is missing"),
        ("a: 1\nb:c\nc: 2\n", "2:1", "this line is no `key: value`", "write a space after `b:`"),
        (
            "a:\n    b: 1\n  c: 2\n",
            "3:3",
            "the indentation of this line fits no line above",
            "indent it by 4 spaces, like `b` above, or by 0, like `a`",
        ),
        (
            "a: 1\n  b: 2\n",
            "2:3",
            "the indentation of this line fits no line above",
            "begin it at the first column, like `a` above",
        ),
        (
            "a: 1\n- b\n",
            "2:1",
            "a list item among the keys of a mapping",
            "indent it below the key of its list",
        ),
        ("a: b\nc: ]\n", "2:4", "`]` closes or separates nothing here", "put text with it in quotes"),
        ('a: "x" y\n', "1:8", "text after a closing quote", "put the whole value in quotes: '\"x\" y'"),
        (
            'a: "\\d"\n',
            "1:5",
            "`\\d` is no escape in double quotes",
            "write `\\\\d`, or use single quotes",
        ),
        ("a: &\nb: 1\n", "1:4", "`&` begins an anchor, and its name is missing", "put text in quotes"),
        ("a: !e!x y\n", "1:4", "`!e!x` is read as a tag", "put text with a leading `!` in quotes"),
        ("a: |x\n  b\n", "1:4", "after `|` the text begins on the next line", "or put it in quotes"),
        (
            "a: - b\n",
            "1:4",
            "a list cannot begin here",
            "begin it on a line of its own, or write it in brackets: [a, b]",
        ),
        (
            "a: {b: : 1}\n",
            "1:8",
            "`:` stands where a value should be",
            "write the value, or put it in quotes",
        ),
        ("a: {b: \n", "1:8", "the text ends before its brackets are closed", "close every `[` and `{`"),
        ("a: 1\n%b: 2\n", "2:1", "a line cannot begin with `%`", "put the key in quotes"),
        ("a: \x07\n", "1:4", "the character U+0007 cannot stand in YAML", ""),
    ],
)
def test_common_syntax_mistakes_are_reported_in_our_words_at_their_place(
    text: str, place: str, message: str, label: str
) -> None:
    assert only(text) == (place, message, label)
