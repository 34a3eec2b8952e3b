"""The text form "key=value,…", and YAML that holds the given data: proven with a YAML reader."""

import itertools

import pytest
from hypothesis import given, strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode

from launcher.specs.text import to_dict, to_flow, to_yaml


@pytest.mark.parametrize(("text", "pairs"), [
    ("FOO=v1", {"FOO": "v1"}), ("K=a,b,J=d", {"K": "a,b", "J": "d"}), ("K=a;b;J=d", {"K": "a;b", "J": "d"}),
    ("FOO=v1,v2,", {"FOO": "v1,v2,"}), ("K=a,b;", {"K": "a,b;"}), ("FOO=,", {"FOO": ","}),
    ("key1=value1,,foo=bar", {"key1": "value1,", "foo": "bar"}), (" K = a , J = b ", {"K": "a", "J": "b"}),
    ("FOO=''", {"FOO": ""}), ('FOO=""', {"FOO": ""}), ("FOO='',BAR=x", {"FOO": "", "BAR": "x"}),
    ("FOO='a=b,c=d;e'", {"FOO": "a=b,c=d;e"}), ('FOO="a=b";BAR="c,d"', {"FOO": "a=b", "BAR": "c,d"}),
    ("FOO= 'a=b' ,BAR=c", {"FOO": "a=b", "BAR": "c"}), ("FOO=it's,BAR=b", {"FOO": "it's", "BAR": "b"}),
    ("FOO='a'b,BAR=c", {"FOO": "'a'b", "BAR": "c"}), ("FOO='a,BAR=c", {"FOO": "'a", "BAR": "c"}),
    ("FOO='a'b=c',BAR=d", {"FOO": "a'b=c", "BAR": "d"}), ("FOO='it's',BAR=c", {"FOO": "it's", "BAR": "c"}),
    ("K=a,K=b", {"K": "b"}), ("d=a:http://x:80", {"d": "a:http://x:80"}),
])  # fmt: skip
def test_text_of_key_value_pairs_is_read(text, pairs):
    assert to_dict(text) == pairs


@pytest.mark.parametrize("text", [
    *("", " ", "FOO", "FOO,", "FOO;", "FOO=", "FOO= ", "FOO=;BAR=v1", "FOO=,BAR=v1", "=v", " =v"),
    *("s=a=b", "FOO=v,=x", "FOO=v, =x", "FOO='a'=b", "FOO==b", "a=1,b="),
])  # fmt: skip
def test_text_that_is_no_list_of_pairs_is_a_value_error(text):
    with pytest.raises(ValueError, match="needs quotes: `s='a=b'`" if text == "s=a=b" else "`"):
        to_dict(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        pairs = to_dict(text)
    except ValueError:
        return
    assert pairs
    assert all(key == key.strip() != "" for key in pairs)


KEY = st.text("abcK_.", min_size=1)
VALUE = st.text("ab,;= :'", min_size=0, max_size=8)


@given(st.dictionaries(KEY, VALUE, min_size=1, max_size=4))
def test_quoted_values_are_read_back_unchanged(pairs):
    text = ",".join(f'{key}="{value}"' for key, value in pairs.items())
    assert to_dict(text) == pairs


TEXT = st.one_of(
    st.text(max_size=12),
    st.text("ab: -#'\"\n\t{}[],&*!|>%@`=.~?0123456789_", max_size=8),
    st.sampled_from(
        ["null", "true", "No", "~", "1e3", "0x1f", ".inf", "2026-01-02", "1_000", "<<", "=", "---", "y"]
    ),
)
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
DATA = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@given(DATA)
def test_yaml_that_is_written_is_read_back_unchanged(data):
    assert YAML(typ="safe", pure=True).load(to_yaml(data)) == data


@pytest.mark.parametrize(("data", "text"), [
    ({"b": 1, "a": [1, {"x": "b", "z": []}]}, "a:\n- 1\n- x: b\n  z: []\nb: 1\n"),
    ({"a": {"b": {}}}, "a:\n  b: {}\n"), ([[1, 2], "x"], "- - 1\n  - 2\n- x\n"),
    ("FAILED (5)", "FAILED (5)\n"), ("it's", "'it''s'\n"),
])  # fmt: skip
def test_yaml_is_written_in_the_expected_layout(data, text):
    assert to_yaml(data) == text


_TRICKY = """
    ._ ._1 .__ .5 +.5 -.5 5. 1_0 0o7 0x_f 0b1 1:30 190:20:30 +12 1e3 .inf -.Inf +.INF .nan .NaN ~ Null NULL =
    << < - -- --- ... . 2026-01-02 2026-1-2T3:4:5Z on OFF yes No TRUE y N a: :a ? #a [a {a a] !a &a *a | > %a
    @a `a ' " \x7f \x9b \ufeff é 漢 😀
"""
TRICKY = [*_TRICKY.split(), "", " ", "a ", " a", "a: b", "a #b", "? a", "- a", "a, b", "a\nb", "a\tb"]
TRICKY += ["\x85", "\u2028"]


@pytest.mark.parametrize("version", [(1, 1), (1, 2)])
def test_text_that_another_version_of_yaml_takes_for_another_type_is_quoted(version):
    reader = YAML(typ="safe", pure=True)
    reader.version = version
    for text in TRICKY:
        assert reader.load(to_yaml({text: text, "list": [text, {text: 1}]})) == {
            text: text,
            "list": [text, {text: 1}],
        }, text


@pytest.mark.parametrize("version", [(1, 1), (1, 2)])
def test_short_text_that_is_written_without_quotes_is_read_as_text(version):
    reader = YAML(typ="safe", pure=True)
    reader.version = version
    letters = "01_.eExo+-<=/~aynf:"
    for size in (1, 2, 3):
        for text in map("".join, itertools.product(letters, repeat=size)):
            if to_flow(text) == text:
                assert str(reader.resolver.resolve(ScalarNode, text, (True, False))).endswith(":str"), text
