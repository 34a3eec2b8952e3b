"""References: where each may stand, its value, and that no other text with a `$` is touched."""

from pathlib import Path

import pytest

from launcher.specs import AppDef, bind
from tests.unit.jobfile.words import HEAD, launch

VARS = "vars: {v: {type: str, default: x}, n: {type: int, default: 2}}\n"


def app(folder: Path, role: str, top: str = "") -> AppDef:
    return launch(folder, HEAD + VARS + top + f"roles:\n  main:\n    entrypoint: run\n    {role}\n").app


def first_arg(folder: Path, arg: str) -> str:
    return app(folder, f"args: [{arg}]").roles[0].args[0]


@pytest.mark.parametrize(
    "text",
    ["$HOME", "${HOME:-x}", "$(date)", "$$", "${{ x }}", "a$b", "$", "$<>", "$< x >", "$<1>", "cost: 5$"],
)
def test_every_other_dollar_passes_through(tmp_path: Path, text: str) -> None:
    assert first_arg(tmp_path, f"'{text}'") == text


@pytest.mark.parametrize("text", ["$<app_id>", "${app_id}", "$<role>-$<num_replicas>", "$$<x>", "$${HOME}"])
def test_run_macros_and_escapes_stay_for_the_run(tmp_path: Path, text: str) -> None:
    assert first_arg(tmp_path, f"'{text}'") == text


def test_the_idiom_for_the_first_host_reaches_the_shell(tmp_path: Path) -> None:
    from launcher.specs import macros

    text = first_arg(tmp_path, "'$${${rank0_env}:=localhost}'")
    values = macros.Values(img_root="", app_id="a", replica_id="0", rank0_env="HOST0")
    assert values.substitute(text) == "${HOST0:=localhost}"


def test_the_value_of_a_variable_cannot_add_a_macro(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str}}\nroles: {main: {entrypoint: run, args: ['<$<var.v>>']}}\n"
    made = launch(tmp_path, text, variables={"v": "$<app_id> ${app_id} $${"}).app
    from launcher.specs import macros

    values = macros.Values(img_root="", app_id="BAD", replica_id="0", rank0_env="")
    assert values.apply(made.roles[0]).args == ["<$<app_id> ${app_id} $${>"]


def test_the_value_of_a_variable_cannot_add_yaml(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str}}\nroles: {main: {entrypoint: run, args: [$<var.v>]}}\n"
    assert launch(tmp_path, text, variables={"v": "a, b]\nc: d"}).app.roles[0].args == ["a, b]\nc: d"]


def test_the_folder_of_the_job_is_filled_in_when_bound(tmp_path: Path) -> None:
    made = app(tmp_path, "image: $<job.dir>/root\n    args: [$<job.dir>, $$<job.dir>]")
    assert made.roles[0].args == ["$<job.dir>", "$$<job.dir>"]
    bound = bind(made, directory="/repo/jobs", home="/home/me")
    assert bound.roles[0].image == "/repo/jobs/root"
    assert bound.roles[0].args[0] == "/repo/jobs"


def test_x_keys_are_free_at_every_mapping_of_fields(tmp_path: Path) -> None:
    text = HEAD + "x-note: $<nothing>\nroles: {main: {entrypoint: x, x-a: 1, resource: {x-b: [], cpu: 1}}}\n"
    assert launch(tmp_path, text).app.roles[0].resource.cpu == 1


def test_a_role_may_be_called_x_something(tmp_path: Path) -> None:
    made = launch(tmp_path, HEAD + "roles: {x-ray: {entrypoint: x}}\n")
    assert [role.name for role in made.app.roles] == ["x-ray"]


@pytest.mark.parametrize("name", ["j.launcher.yaml", "j.launcher.toml"])
def test_numbers_in_args_and_env_are_taken_as_written(tmp_path: Path, name: str) -> None:
    yaml = (
        HEAD
        + "roles: {m: {entrypoint: x, args: [3.10, 1e3, true, 0x1F], env: {A: 017, B: 2026-01-02, C: -0}}}\n"
    )
    toml = 'version = 1\nname = "job"\n[roles.m]\nentrypoint = "x"\nargs = [3.10, 1e3, true, 0x1F]\n'
    toml += 'env = {A = "017", B = 2026-01-02, C = -0}\n'
    role = launch(tmp_path, toml if name.endswith("toml") else yaml, name=name).app.roles[0]
    assert role.args == ["3.10", "1e3", "true", "0x1F"]
    assert role.env == {"A": "017", "B": "2026-01-02", "C": "-0"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("'$<var.v> costs $5'", "x costs $5"),
        ("'$<var.v> $$<app_id>'", "x $<app_id>"),
        ("'$<var.v> $${HOME}'", "x ${HOME}"),
        ("'a$<var.n>b'", "a2b"),
    ],
)
def test_escapes_are_resolved_where_the_run_fills_nothing_in(tmp_path: Path, written: str, read: str) -> None:
    made = launch(tmp_path, f"{HEAD}{VARS}description: {written}\nroles: {{main: {{entrypoint: run}}}}\n")
    assert made.description == read


def test_a_dollar_in_a_value_is_escaped_only_where_the_run_fills_in(tmp_path: Path) -> None:
    variables = "vars: {d: {type: str, default: 'a$$<app_id>'}}\n"
    role = "roles: {main: {entrypoint: run, args: ['$<var.d>']}}\n"
    made = launch(tmp_path, HEAD + variables + "description: '$<var.d>'\n" + role)
    assert (made.description, made.app.roles[0].args) == ("a$$<app_id>", ["a$$$<app_id>"])
