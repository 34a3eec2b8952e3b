"""Python callers that pass something other than launches or a plan."""

from typing import Any

import pytest

import launcher
from launcher.apply import apply_launches, apply_plan, make_plan
from launcher.errors import LauncherError
from launcher.specs import AppDef
from tests.unit.plan.world import job


@pytest.mark.parametrize(("given", "output", "hint"), [
    ("x", "takes a list of launches, got str: 'x'", "([launcher.load_job('x')])"),
    (b"x", "got bytes: b'x'", "load_job"), (None, "got NoneType: None", "load_job"),
    (7, "got int: 7", "load_job"), (iter([]), "got list_iterator: ", "load_job"),
    (["x.launcher.yaml"], "got in it str: 'x.launcher.yaml'", "([launcher.load_job('x.launcher.yaml')])"),
    ([AppDef("a", roles=[])], "got in it AppDef: ", "load_job"), (job("train"), "got Launch: ", "([launch])"),
    ([job("train"), None], "got in it NoneType: None", "load_job"), (["x" * 1000], "xxx…", "load_job"),
])  # fmt: skip
@pytest.mark.parametrize("function", [make_plan, apply_launches])
def test_a_value_that_is_no_list_of_launches_is_refused_with_a_remedy(function, given, output, hint):
    with pytest.raises(LauncherError) as caught:
        function(given)
    assert isinstance(caught.value, TypeError)
    assert str(caught.value).startswith(f"{function.__name__} takes ")
    assert output in str(caught.value)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(("choices", "output"), [
    ("train", "takes `Choices`, got str: 'train'"),
    (launcher.Choices(rerun="train"), "takes names of jobs as `rerun`, got str: 'train'"),  # type: ignore[arg-type]
    (launcher.Choices(select=None), "takes names of jobs as `select`, got NoneType: None"),  # type: ignore[arg-type]
    (launcher.Choices(rerun=(1,)), "takes names of jobs as `rerun`, got tuple: (1,)"),  # type: ignore[arg-type]
])  # fmt: skip
@pytest.mark.parametrize("function", [make_plan, apply_launches])
def test_choices_of_another_type_are_refused_with_a_remedy(function, choices, output):
    with pytest.raises(TypeError) as caught:
        function([job("train")], choices=choices)
    assert str(caught.value) == f"{function.__name__} {output}"
    assert "launcher.Choices(" in str(caught.value.hint)


@pytest.mark.parametrize("given", ["plan.json", None, [job("train")], {}])
def test_a_value_that_is_no_plan_is_refused_with_a_remedy(given: Any) -> None:
    with pytest.raises(TypeError, match="apply_plan takes a plan, got ") as caught:
        apply_plan(given)
    assert "launcher apply plan.json" in str(caught.value.hint)


def test_an_empty_list_of_launches_makes_an_empty_plan() -> None:
    assert launcher.make_plan([]).is_empty
    assert launcher.make_plan(()).is_empty
