"""Scheduler options: types and defaults. Wrong input is reported, never dropped."""

from typing import Dict, List, Union  # noqa: UP035  # users write both generations of generics

import pytest

from launcher.errors import LauncherError
from launcher.specs import InvalidRunConfigException, get_type_name, runopt, runopts


@pytest.fixture
def opts() -> runopts:
    made = runopts()
    made.add("image", type_=str, help="name of the image", required=True)
    made.add("priority", type_=int, help="higher is earlier", default=10)
    made.add("preemptible", type_=bool, help="may be stopped", default=False)
    made.add("grace_s", type_=float, help="seconds", default=10.0)
    made.add("tags", type_=list[str], help="words", default=["a"])
    made.add("env", type_=dict[str, str], help="names and values")
    return made


GENERICS = [(list[str], dict[str, str]), (List[str], Dict[str, str])]  # noqa: UP006


# -- declaring ---------------------------------------------------------------------------------------------


def test_options_are_declared_by_key_type_and_help_and_keep_their_order(opts):
    assert opts.get("priority") == runopt(10, int, False, "higher is earlier")
    assert [name for name, _ in opts] == ["image", "priority", "preemptible", "grace_s", "tags", "env"]
    assert (len(opts), opts.get("imag")) == (6, None)
    made = runopts()
    made.add("key", str, "help", "default")
    assert made.get("key") == runopt("default", str, False, "help")


def test_adding_and_updating_replace_options_of_the_same_key(opts):
    opts.add("priority", type_=str, help="now text")
    assert opts.get("priority") == runopt(None, str, False, "now text")
    other = runopts()
    other.add("priority", type_=str, help="other")
    other.add("queue", type_=str, help="queue")
    opts.update(other)
    assert opts.get("priority") == runopt(None, str, False, "other")
    assert (len(opts), len(other)) == (7, 2)


def test_a_required_option_has_no_default():
    with pytest.raises(ValueError, match="cannot have a default"):
        runopts().add("key", type_=str, help="", default="x", required=True)


@pytest.mark.parametrize(
    ("type_", "default"),
    [(int, "1"), (int, True), (float, "1"), (str, 1), (bool, 1), (list[str], {}), (dict[str, str], [])],
)
def test_a_default_must_be_of_the_type(type_, default):
    with pytest.raises(TypeError, match="its default is"):
        runopts().add("key", type_=type_, help="", default=default)


# -- types -------------------------------------------------------------------------------------------------


FITTING = {
    str: (["x"], [1, None]),
    int: ([1], [True, 1.0]),
    float: ([1.5, 1], [True, None]),
    bool: ([True], [1]),
    list[str]: ([["a"], []], [[1], {}, {"a": "b"}, "abc", None]),
    dict[str, str]: ([{"a": "b"}], [{"a": 1}, {1: "a"}, []]),
}


@pytest.mark.parametrize("tp", FITTING, ids=str)
def test_is_type_says_whether_a_value_fits_a_type(tp):
    fitting, others = FITTING[tp]
    assert [runopts.is_type(value, tp) for value in fitting] == [True] * len(fitting)
    assert [runopts.is_type(value, tp) for value in others] == [False] * len(others)


@pytest.mark.parametrize(("list_type", "dict_type"), GENERICS)
def test_both_generations_of_generics_are_known(list_type, dict_type):
    assert runopt(None, list_type, False, "").is_type_list_of_str
    assert runopt(None, dict_type, False, "").is_type_dict_of_str
    assert not runopt(None, list[int], False, "").is_type_list_of_str
    assert not runopt(None, str, False, "").is_type_dict_of_str
    assert runopts.is_type(["a"], list_type)
    assert runopts.is_type({"a": "b"}, dict_type)
    assert not runopts.is_type({"a": "b"}, list_type)


@pytest.mark.parametrize(("tp", "name"), [
    (int, "int"), (str, "str"), (list[str], "list[str]"),
    (List[str], "typing.List[str]"),  # noqa: UP006
    (Union[str, int], "typing.Union[str, int]"),  # noqa: UP007
    (None, "None"),
])  # fmt: skip
def test_get_type_name_returns_the_name_of_a_type(tp, name):
    assert get_type_name(tp) == name


# -- resolving ---------------------------------------------------------------------------------------------


def test_resolving_fills_in_defaults_and_leaves_the_input_alone(opts):
    cfg = {"image": "x", "priority": None}
    assert opts.resolve(cfg) == {
        "image": "x", "priority": 10, "preemptible": False, "grace_s": 10.0, "tags": ["a"], "env": None,
    }  # fmt: skip
    assert cfg == {"image": "x", "priority": None}


def test_given_values_win_over_defaults(opts):
    cfg = {"image": "x", "priority": 1, "preemptible": True, "grace_s": 0.5, "tags": [], "env": {"a": "b"}}
    assert opts.resolve(cfg) == cfg


def test_an_int_for_a_float_option_becomes_a_float(opts):
    grace = opts.resolve({"image": "x", "grace_s": 3})["grace_s"]
    assert (grace, type(grace)) == (3.0, float)


@pytest.mark.parametrize("cfg", [{}, {"image": None}, {"priority": 3}])
def test_a_missing_required_option_is_named(opts, cfg):
    with pytest.raises(InvalidRunConfigException, match="option `image` is required") as caught:
        opts.resolve(cfg)
    assert caught.value.cfg_key == "image"
    assert ("<EMPTY>" in str(caught.value)) is (cfg == {})


@pytest.mark.parametrize(("key", "value"), [
    ("image", 1), ("priority", "1"), ("priority", True), ("preemptible", 1), ("grace_s", "1"),
    ("tags", {"a": "b"}), ("tags", "a"), ("env", ["a"]),
])  # fmt: skip
def test_a_value_of_a_wrong_type_is_named(opts, key, value):
    with pytest.raises(InvalidRunConfigException, match=f"option `{key}` must be of type") as caught:
        opts.resolve({"image": "x", key: value})
    assert caught.value.cfg_key == key
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("key", "hint"), [
    ("priorty", "did you mean `priority`?"),
    ("zzz", "there are: env, grace_s, image, preemptible, priority, tags"),
])  # fmt: skip
def test_an_unknown_option_is_refused_with_the_nearest_name_or_all_of_them(opts, key, hint):
    with pytest.raises(InvalidRunConfigException, match=f"there is no option `{key}`") as caught:
        opts.resolve({"image": "x", key: 1})
    assert caught.value.hint == hint
    with pytest.raises(InvalidRunConfigException) as caught:
        runopts().resolve({key: 1})
    assert caught.value.hint == "this scheduler takes no options"
    assert issubclass(InvalidRunConfigException, LauncherError)
    assert issubclass(InvalidRunConfigException, ValueError)


# -- printing ----------------------------------------------------------------------------------------------


def test_options_print_as_usage_required_and_optional_arguments():
    made = runopts()
    made.add("priority", type_=int, help="higher\nis earlier", default=10)
    made.add("image", type_=str, help="name of the image", required=True)
    made.add("tags", type_=list[str], help="words")
    assert (
        repr(made)
        == """\
    usage:
        image=IMAGE,[priority=PRIORITY],[tags=TAGS]

    required arguments:
        image=IMAGE (str)
            name of the image

    optional arguments:
        priority=PRIORITY (int, 10)
            higher
            is earlier
        tags=TAGS (list[str], None)
            words
"""
    )


def test_sections_without_options_are_left_out():
    made = runopts()
    made.add("a", type_=str, help="x")
    assert "required arguments" not in repr(made)


@pytest.mark.parametrize(("rule", "right", "wrong", "wanted"), [
    ({"choices": ("fixed", "none")}, "none", "nine", "one of fixed, none"),
    ({"pattern": "[0-9]+m", "wants": "a size such as 10m"}, "10m", "10m!", "a size such as 10m"),
    ({"minimum": 1}, 1, 0, "1 or more"),
])  # fmt: skip
def test_an_option_says_what_its_values_must_be(rule, right, wrong, wanted):
    opts = runopts()
    opts.add("x", type(right), "help", **rule)
    opts.check_values({"x": right})
    assert opts.resolve({"x": right}) == {"x": right}
    for refusing in (opts.resolve, opts.check_values):
        with pytest.raises(InvalidRunConfigException, match=wanted) as error:
            refusing({"x": wrong})
        assert error.value.cfg_key == "x"


# -- options of roles, and patterns in lists and mappings --------------------------------------------------


def test_only_options_declared_for_roles_are_options_of_a_role(opts):
    opts.add("user", str, "user", is_of_role=True)
    assert [key for key, _ in opts.of_role()] == ["user"]


@pytest.mark.parametrize(
    ("kind", "value", "at"),
    [(str, "x", ()), (list[str], ["1", "x"], (1,)), (dict[str, str], {"a": "1", "b": "x"}, ("b",))],
)
def test_a_pattern_holds_for_each_text_of_a_value(kind, value, at):
    made = runopts()
    made.add("o", kind, "help", pattern=r"(?:[ab]=)?[0-9]", wants="digits")
    fault = made.get("o").fault(value)
    assert (fault.code, fault.wanted, fault.at) == ("invalid-value", "digits", at)


def test_whole_numbers_stand_for_their_text_in_a_mapping_too():
    made = runopts()
    made.add("o", dict[str, str], "help", takes_number=True)
    assert made.resolve({"o": {"a": -1, "b": "2"}}) == {"o": {"a": "-1", "b": "2"}}
    with pytest.raises(InvalidRunConfigException):
        made.resolve({"o": {"a": True}})
