"""JSON with an indent of two is the text that the standard library writes."""

import json
from typing import Any

from hypothesis import given, strategies as st

from launcher.indented import indented
from launcher.specs.secret import Secret

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
)


@given(VALUES)
def test_every_value_is_written_as_by_json(value: Any) -> None:
    assert indented(value) == json.dumps(value, indent=2)


def test_a_subclass_of_text_is_written_as_by_json() -> None:
    value = {"token": Secret.parse("env:TOKEN")}
    assert indented(value) == json.dumps(value, indent=2)
