"""Macros: text that is filled in, text that is left alone, and that phases give the same as one pass."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from launcher.specs import (
    SYMBOLIC_APP_ID,
    BindMount,
    DeviceMount,
    Resource,
    Role,
    VolumeMount,
    find_macros,
    macros,
    substitute,
    substitute_partial,
)
from launcher.specs.macros import MacroError, escape

VALUES = macros.Values("/img", "app-1", "3", "RANK0", "/base")
FIVE = {
    "img_root": "/img", "app_id": "app-1", "replica_id": "3", "rank0_env": "RANK0", "base_img_root": "/base",
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), FIVE.items())
def test_both_spellings_of_the_five_macros_are_filled_in(name, value):
    assert getattr(macros, name) == f"${{{name}}}"
    assert VALUES.substitute(f"a ${{{name}}} b $<{name}> c") == f"a {value} b {value} c"


def test_values_are_listed_by_name_and_base_img_root_has_a_default():
    assert VALUES.to_dict() == FIVE
    assert macros.Values("i", "a", "r", "e").base_img_root == "DEPRECATED"


NO_MACROS = [
    *("", "$", "$$", "$HOME", "${HOME}", "${HOME:-x}", "$(date)", "${{ x }}", "$app_id", "$$app_id"),
    *("$ {app_id}", "${ app_id }", "${app_id", "$<app_id", "$<>", "$< app_id>", "$<unknown>", "$<job.dir>"),
    *("${role}", "awk '{print $1}' $< $@", "100$"),
]


@pytest.mark.parametrize("text", NO_MACROS)
def test_every_other_dollar_is_left_alone(text):
    assert VALUES.substitute(text) == text


@pytest.mark.parametrize(("text", "result"), [
    ("$$<app_id>", "$<app_id>"), ("$$<x>", "$<x>"), ("$$<var.name>", "$<var.name>"), ("$${", "${"),
    ("$${app_id}", "${app_id}"), ("$${HOME}", "${HOME}"),
    ("$${${rank0_env}:=localhost}", "${RANK0:=localhost}"), ("$$$<app_id>", "$$<app_id>"),
    ("$$$${app_id}", "$$${app_id}"), ("$$<x>$<app_id>", "$<x>app-1"), ("$$ $$<", "$$ $$<"),
])  # fmt: skip
def test_a_dollar_in_front_of_a_macro_makes_it_text(text, result):
    assert VALUES.substitute(text) == result


def test_a_value_is_never_read_as_a_macro():
    values = macros.Values(img_root="$<app_id>", app_id="${replica_id}", replica_id="$$<x>", rank0_env="")
    assert values.substitute("$<img_root> ${app_id} $<replica_id>") == "$<app_id> ${replica_id} $$<x>"


@pytest.mark.parametrize("wrong", [1, None, ["$<app_id>"], b"x"])
def test_substituting_in_anything_but_text_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="want text"):
        VALUES.substitute(wrong)


def full_role() -> Role:
    return Role(
        name="trainer-$<app_id>",
        image="image-$<app_id>",
        entrypoint="$<img_root>/bin/run",
        args=["--id", "$<app_id>", "$<role>/$<num_replicas>"],
        env={"$<app_id>": "${rank0_env}", "N": "$<replica_id>"},
        num_replicas=4,
        resource=Resource(1, 0, 1, {"cap": ["$<app_id>"]}),
        port_map={"$<app_id>": 1},
        metadata={
            "$<app_id>": "$<app_id>",
            "deep": {"list": ["$<app_id>", {"in": "$<app_id>"}, ("$<app_id>", 1, [None])]},
            "n": 7,
        },
        mounts=[
            BindMount("/data/$<app_id>", "/dst/$<app_id>"),
            VolumeMount("vol-$<replica_id>", "/vol"),
            DeviceMount("/dev/$<replica_id>", "/dev/x"),
        ],
    )


def test_applying_fills_in_commands_env_values_metadata_and_mount_sources_alone():
    assert VALUES.apply(full_role()) == replace(
        full_role(),
        entrypoint="/img/bin/run",
        args=["--id", "app-1", "trainer-$<app_id>/4"],
        env={"$<app_id>": "RANK0", "N": "3"},
        metadata={
            "$<app_id>": "app-1",
            "deep": {"list": ["app-1", {"in": "app-1"}, ("app-1", 1, [None])]},
            "n": 7,
        },
        mounts=[
            BindMount("/data/app-1", "/dst/$<app_id>"),
            VolumeMount("vol-3", "/vol"),
            DeviceMount("/dev/3", "/dev/x"),
        ],
    )


def test_applying_gives_a_new_role_and_leaves_the_given_one_alone():
    role, before = full_role(), full_role()
    made = VALUES.apply(role)
    assert role == before
    for own in (made.args, made.metadata["deep"]["list"], made.resource.capabilities["cap"]):
        own.append("x")
    for own in (made.env, made.port_map, made.mounts):
        own.clear()
    assert role == before


def test_applying_keeps_the_class_of_the_role():
    class Hooked(Role):
        pass

    assert type(VALUES.apply(Hooked("a", ""))) is Hooked


def test_a_partial_apply_leaves_the_named_macros_and_all_escapes():
    role = Role("r", "", entrypoint="$<app_id>", args=["$<replica_id>-$<app_id>-$$<x>"])
    made = macros.Values("i", SYMBOLIC_APP_ID, "0", "R").apply(role, partial={"app_id"})
    assert (made.entrypoint, made.args) == ("$<app_id>", ["0-$<app_id>-$$<x>"])
    assert substitute(made.args[0], {"app_id": "real"}) == "0-real-$<x>"


@pytest.mark.parametrize(("text", "value", "once", "then"), [
    ("$<a>/$<app_id>", "/x$<app_id>${app_id}$HOME${HOME}", "/x$$<app_id>$${app_id}$HOME${HOME}/$<app_id>",
        "/x$<app_id>${app_id}$HOME${HOME}/1"),
    ("$<a><app_id>", "$", "$$<app_id>", "$<app_id>"),
], ids=["macros of the value", "a macro that comes together at a border"])  # fmt: skip
def test_partial_substitution_escapes_what_the_value_holds(text, value, once, then):
    assert substitute_partial(text, {"a": value}) == once
    assert substitute(once, {"app_id": "1"}) == then


def test_a_value_ending_in_a_dollar_before_an_open_macro_is_refused():
    with pytest.raises(MacroError, match="ends in"):
        substitute_partial("$<a>$<app_id>", {"a": "5$"})


@pytest.mark.parametrize(("text", "names"), [
    ("$<a> ${app_id} ${HOME}", ["a", "app_id"]), ("$$<a> $${app_id}", []),
    ("$<var.n> $<target.name> $<a-b>", ["var.n", "target.name", "a-b"]), ("plain", []), ("$<1> $<a b>", []),
])  # fmt: skip
def test_finding_macros_gives_names_and_places(text, names):
    found = list(find_macros(text))
    assert [name for name, _, _ in found] == names
    assert all(text[start] == "$" and text[end - 1] in ">}" for _, start, end in found)


_PIECES = "$ $$ < > { } a b app_id $<a> $<b> $<c> ${app_id} $<app_id> x"
PIECES = st.sampled_from([*_PIECES.split(), " "])
TEXT = st.lists(PIECES, max_size=12).map("".join)


@given(TEXT)
def test_escaped_text_reads_as_itself(text):
    assert substitute(escape(text), {"a": "A", "b": "B", "app_id": "ID"}) == text
    assert list(find_macros(escape(text))) == []


@given(text=TEXT, a=TEXT, b=TEXT, c=TEXT, app_id=TEXT)
def test_filling_in_phases_equals_filling_in_one_go(text, a, b, c, app_id):
    try:
        once = substitute_partial(text, {"a": a})
        twice = substitute_partial(once, {"b": b, "c": c})
    except MacroError:
        return
    whole = substitute(text, {"a": a, "b": b, "c": c, "app_id": app_id})
    assert substitute(twice, {"app_id": app_id}) == whole


@given(TEXT)
def test_filling_in_nothing_in_phases_changes_nothing(text):
    assert substitute_partial(text, {}) == text
