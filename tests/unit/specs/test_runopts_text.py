"""Scheduler options from text and from JSON: read by their types, or refused with a clear message."""

from typing import Dict, List  # noqa: UP035  # users write both generations of generics

import pytest
from hypothesis import given, strategies as st

from launcher.specs import InvalidRunConfigException, runopt, runopts

GENERICS = [(list[str], dict[str, str]), (List[str], Dict[str, str])]  # noqa: UP006


def letters(list_type=list[str], dict_type=dict[str, str]) -> runopts:
    made = runopts()
    for key, kind in {"K": list_type, "J": str, "E": dict_type, "I": int, "F": float, "B": bool}.items():
        made.add(key, type_=kind, help="")
    return made


@pytest.mark.parametrize(("list_type", "dict_type"), GENERICS)
@pytest.mark.parametrize(("text", "cfg"), [
    ("", {}), (None, {}), ("  ", {}), ("K=a,b;", {"K": ["a", "b"]}), ("K=a,b", {"K": ["a", "b"]}),
    ("K=a;b;J=d", {"K": ["a", "b"], "J": "d"}), ("K=a,b,J=d", {"K": ["a", "b"], "J": "d"}),
    ("K=a,,b", {"K": ["a", "b"]}), ("K=''", {"K": []}), ("E=f:b,F:B", {"E": {"f": "b", "F": "B"}}),
    ("E=a:http://x:80", {"E": {"a": "http://x:80"}}), ("J='a=b,c'", {"J": "a=b,c"}), ("J=''", {"J": ""}),
    ("I=3,F=3,J=3", {"I": 3, "F": 3.0, "J": "3"}), ("I=-3,F=1e3", {"I": -3, "F": 1000.0}),
])  # fmt: skip
def test_text_of_options_is_read_by_their_types(list_type, dict_type, text, cfg):
    assert letters(list_type, dict_type).cfg_from_str(text) == cfg


WORDS = {
    True: ("true", "True", "TRUE", "1", "yes", "on", " true "),
    False: ("false", "False", "0", "no", "off"),
}


@pytest.mark.parametrize("value", WORDS)
def test_a_boolean_is_read_from_each_of_its_words(value):
    assert [letters().cfg_from_str(f"B={text}") for text in WORDS[value]] == [{"B": value}] * len(
        WORDS[value]
    )


def test_reading_options_from_text_adds_no_defaults_and_requires_none():
    opts = letters()
    opts.add("image", type_=str, help="", required=True)
    opts.add("priority", type_=int, help="", default=10)
    assert opts.cfg_from_str("priority=3") == {"priority": 3}


@pytest.mark.parametrize(("text", "key", "message"), [
    ("J", "", "has no `key=value` pair"),
    ("J=", "", "`J=` has no value"),
    ("J=;K=a", "", "`J=` has no value"),
    ("J=a=b", "", "needs quotes"),
    ("K=a,UNKWN=b", "UNKWN", "there is no option `UNKWN`"),
    ("I=x", "I", "option `I`: want a number (int), got `x`"),
    ("I=1.5", "I", "got `1.5`"),
    ("F=x", "F", "option `F`: want a number (float), got `x`"),
    ("F=nan", "F", "want a finite number"),
    ("B=maybe", "B", "option `B`: want true or false, got `maybe`"),
    ("E=a", "E", "option `E`: want key:value, got `a`"),
])  # fmt: skip
def test_malformed_text_is_a_clear_error(text, key, message):
    with pytest.raises(InvalidRunConfigException) as caught:
        letters().cfg_from_str(text)
    assert message in str(caught.value)
    assert text in str(caught.value)
    assert caught.value.cfg_key == key


@given(st.text("KJEIFB=,;:'\" a1", max_size=16))
def test_any_text_is_read_or_refused(text):
    try:
        cfg = letters().cfg_from_str(text)
    except InvalidRunConfigException:
        return
    assert set(cfg) <= set("KJEIFB")


@pytest.mark.parametrize("type_", [None, list[int], list, dict, tuple])
def test_a_type_without_a_text_form_is_a_value_error_and_a_custom_type_reads_its_text(type_):
    with pytest.raises(ValueError, match=r"no type|cannot be read from text"):
        runopt(None, type_, False, "").cast_to_type("a")
    assert runopt(None, str.upper, False, "").cast_to_type("a") == "A"


# -- JSON --------------------------------------------------------------------------------------------------


def test_json_is_read_elements_become_text_and_null_stays():
    text = '{"K": ["a", 1, 1.5], "J": null, "E": {"a": 1}, "I": 3, "F": 1, "B": true}'
    read = {"K": ["a", "1", "1.5"], "J": None, "E": {"a": "1"}, "I": 3, "F": 1, "B": True}
    assert letters().cfg_from_json_repr(text) == read


@pytest.mark.parametrize(("text", "key", "message"), [
    ("{", "", "options are not JSON"),
    ("[]", "", "must be a JSON object"),
    ('"K=a"', "", "must be a JSON object"),
    ('{"UNKWN": 1}', "UNKWN", "there is no option `UNKWN`"),
    ('{"J": 1}', "J", "must be of type str"),
    ('{"I": true}', "I", "must be of type int"),
    ('{"K": {"a": "b"}}', "K", "must be of type list[str]"),
    ('{"K": [["a"]]}', "K", "must be of type list[str]"),
    ('{"E": ["a"]}', "E", "must be of type dict[str, str]"),
    ('{"E": {"a": {}}}', "E", "must be of type dict[str, str]"),
])  # fmt: skip
def test_json_of_another_form_is_a_clear_error(text, key, message):
    with pytest.raises(InvalidRunConfigException) as caught:
        letters().cfg_from_json_repr(text)
    assert message in str(caught.value)
    assert caught.value.cfg_key == key
