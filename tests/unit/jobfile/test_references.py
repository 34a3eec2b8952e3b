"""References: where each may stand, what it becomes, and that nothing else with a `$` is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.specs import AppDef, bind
from tests.unit.jobfile.words import HEAD, compile_text, labels, launch, lines, places

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


def test_compile_references_become_text(tmp_path: Path) -> None:
    text = "'$<var.v>/$<var.n>/$<job.name>/$<job.project>/$<target.name>/$<app_id>'"
    assert first_arg(tmp_path, text) == "x/2/job/default/default/$<app_id>"


def test_a_value_cannot_bring_in_a_macro(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str}}\nroles: {main: {entrypoint: run, args: ['<$<var.v>>']}}\n"
    made = launch(tmp_path, text, variables={"v": "$<app_id> ${app_id} $${"}).app
    from launcher.specs import macros

    values = macros.Values(img_root="", app_id="BAD", replica_id="0", rank0_env="")
    assert values.apply(made.roles[0]).args == ["<$<app_id> ${app_id} $${>"]


def test_a_value_cannot_bring_in_yaml(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str}}\nroles: {main: {entrypoint: run, args: [$<var.v>]}}\n"
    assert launch(tmp_path, text, variables={"v": "a, b]\nc: d"}).app.roles[0].args == ["a, b]\nc: d"]


def test_the_folder_of_the_job_is_filled_in_when_bound(tmp_path: Path) -> None:
    made = app(tmp_path, "image: $<job.dir>/root\n    args: [$<job.dir>, $$<job.dir>]")
    assert made.roles[0].args == ["$<job.dir>", "$$<job.dir>"]
    bound = bind(made, directory="/repo/jobs", home="/home/me")
    assert bound.roles[0].image == "/repo/jobs/root"
    assert bound.roles[0].args[0] == "/repo/jobs"


def test_an_escape_outside_macro_fields_is_text_at_once(tmp_path: Path) -> None:
    text = HEAD + "description: costs $$<x> and $HOME\nroles: {a: {entrypoint: x}}\n"
    assert launch(tmp_path, text).description == "costs $<x> and $HOME"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("project: $<app_id>\n", "3:10"),
        ("timeout: $<num_replicas>\n", "3:10"),
        ("metadata: {a: 'x $<replica_id>'}\n", "3:18"),
        ("cfg: {log_dir: $<app_id>}\n", "3:16"),
        ("roles: {m: {entrypoint: x, image: $<app_id>}}\n", "3:35"),
        ("roles: {m: {entrypoint: x, mounts: [{type: bind, src: a, dst: '${app_id}'}]}}\n", "3:64"),
        ("roles: {m: {entrypoint: x, num_replicas: $<job.dir>}}\n", "3:42"),
        ("vars: {v: {type: str, default: $<job.name>}}\n", "3:32"),
        ("roles: {m: {entrypoint: x, env: {$<app_id>: x}}}\n", "3:34"),
    ],
)
def test_a_reference_in_the_wrong_place_says_where_it_may_stand(
    tmp_path: Path, text: str, place: str
) -> None:
    compiled = compile_text(
        tmp_path, HEAD + text + ("" if "roles" in text else "roles: {a: {entrypoint: x}}\n")
    )
    assert places(compiled) == [f"{place} reference-phase"]


def test_no_reference_in_name_and_version(tmp_path: Path) -> None:
    text = "version: $<var.v>\nname: $<var.v>\n" + VARS + "roles: {a: {entrypoint: x}}\n"
    assert places(compile_text(tmp_path, text)) == [
        "1:10 wrong-type",
        "2:7 reference-phase",
        "3:36 unused-variable",
    ]


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("$<var.w>", "`$<var.v>`"),
        ("$<v>", "`$<var.v>`"),
        ("$<job.nme>", "`$<job.name>`"),
        ("$<app-id>", "`$<app_id>`"),
        ("$<replica>", "`$<replica_id>`"),
        ("$<num_replica>", "`$<num_replicas>`"),
    ],
)
def test_what_names_nothing_is_an_error_with_the_nearest_name(
    tmp_path: Path, written: str, nearest: str
) -> None:
    compiled = compile_text(
        tmp_path, HEAD + VARS + f"roles: {{main: {{entrypoint: x, args: ['a {written}']}}}}\n"
    )
    assert places(compiled) == ["4:41 unknown-reference"]
    assert labels(compiled) == [f"did you mean {nearest}?"]


def test_every_wrong_reference_of_one_text_is_reported(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, HEAD + "roles: {main: {entrypoint: '$<a.b> $<c.d>'}}\n")
    assert lines(compiled) == [
        "3:29 unknown-reference `$<a.b>` names nothing",
        "3:36 unknown-reference `$<c.d>` names nothing",
    ]


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
