"""The YAML we write says what it was given: proven with a YAML reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from launcher.specs.yamltext import to_yaml

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
def test_what_is_written_is_read_back(data):
    assert YAML(typ="safe", pure=True).load(to_yaml(data)) == data


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"b": 1, "a": [1, {"x": "b", "z": []}]}, "a:\n- 1\n- x: b\n  z: []\nb: 1\n"),
        ({"a": {"b": {}}}, "a:\n  b: {}\n"),
        ([[1, 2], "x"], "- - 1\n  - 2\n- x\n"),
        ("FAILED (5)", "FAILED (5)\n"),
        ("it's", "'it''s'\n"),
    ],
)
def test_the_layout(data, text):
    assert to_yaml(data) == text
