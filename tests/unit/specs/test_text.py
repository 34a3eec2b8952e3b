"""The text form "key=value,…"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.specs.text import to_dict


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("FOO=v1", {"FOO": "v1"}),
        ("K=a,b,J=d", {"K": "a,b", "J": "d"}),
        ("K=a;b;J=d", {"K": "a;b", "J": "d"}),
        ("FOO=v1,v2,", {"FOO": "v1,v2,"}),
        ("K=a,b;", {"K": "a,b;"}),
        ("FOO=,", {"FOO": ","}),
        ("key1=value1,,foo=bar", {"key1": "value1,", "foo": "bar"}),
        (" K = a , J = b ", {"K": "a", "J": "b"}),
        ("FOO=''", {"FOO": ""}),
        ('FOO=""', {"FOO": ""}),
        ("FOO='',BAR=x", {"FOO": "", "BAR": "x"}),
        ("FOO='a=b,c=d;e'", {"FOO": "a=b,c=d;e"}),
        ('FOO="a=b";BAR="c,d"', {"FOO": "a=b", "BAR": "c,d"}),
        ("FOO= 'a=b' ,BAR=c", {"FOO": "a=b", "BAR": "c"}),
        ("FOO=it's,BAR=b", {"FOO": "it's", "BAR": "b"}),
        ("FOO='a'b,BAR=c", {"FOO": "'a'b", "BAR": "c"}),
        ("FOO='a,BAR=c", {"FOO": "'a", "BAR": "c"}),
        ("FOO='a'b=c',BAR=d", {"FOO": "a'b=c", "BAR": "d"}),
        ("FOO='it's',BAR=c", {"FOO": "it's", "BAR": "c"}),
        ("K=a,K=b", {"K": "b"}),
        ("d=a:http://x:80", {"d": "a:http://x:80"}),
    ],
)
def test_pairs_are_read(text, pairs):
    assert to_dict(text) == pairs


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "FOO", "FOO,", "FOO;", "FOO=", "FOO= ", "FOO=;BAR=v1", "FOO=,BAR=v1", "=v", " =v"),
        *("s=a=b", "FOO=v,=x", "FOO=v, =x", "FOO='a'=b", "FOO==b", "a=1,b="),
    ],
)
def test_text_of_another_form_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"`"):
        to_dict(text)


def test_an_unquoted_equals_sign_is_refused_with_how_to_quote_it():
    with pytest.raises(ValueError, match="needs quotes: `s='a=b'`"):
        to_dict("s=a=b")


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
def test_quoted_values_survive(pairs):
    text = ",".join(f'{key}="{value}"' for key, value in pairs.items())
    assert to_dict(text) == pairs
