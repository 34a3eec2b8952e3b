"""References: the value and the type of each kind, its escape, and that no other text with a `$` is touched.

A reference may stand inside of another one: to the output folder of a need, and to the host of a role.
"""

from pathlib import Path

import pytest

from launcher.specs import AppDef, Launch, bind, digest, document
from tests.unit.jobfile.words import HEAD, compile_text, git, launch, launches, lines, places

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


NESTED = "vars:\n  name: {type: str, default: prepare}\nmatrix: {day: [1, B F, 0.1]}\n"
HASHED = "bf-k6keb"


def nested(arg: str, *, needs: str = "", top: str = NESTED) -> str:
    return f"{HEAD}{top}{needs}roles: {{main: {{entrypoint: cat, args: ['{arg}']}}}}\n"


def nested_args(folder: Path, source: str) -> list[str]:
    compiled = compile_text(folder, source)
    assert [each for each in compiled.diagnostics if each.code != "unused-variable"] == []
    return [launch.app.roles[0].args[0] for launch in compiled.launches]


def test_an_output_folder_is_named_as_its_job_is_in_needs(tmp_path: Path) -> None:
    name = "prepare-$<matrix.day>"
    source = nested(f"in=$<needs.{name}.output_dir>/x", needs=f"needs: [{name}]\n")
    assert nested_args(tmp_path, source) == [
        f"in=$<needs.prepare-{day}.output_dir>/x" for day in ("1", HASHED, "0p1")
    ]


def test_a_name_may_hold_several_references(tmp_path: Path) -> None:
    name = "$<var.name>-$<matrix.day>"
    found = nested_args(tmp_path, nested(f"$<needs.{name}.output_dir>", needs=f"needs: [{name}]\n"))
    assert found == [f"$<needs.prepare-{day}.output_dir>" for day in ("1", HASHED, "0p1")]


def test_a_long_name_is_cut_as_in_needs(tmp_path: Path) -> None:
    name = f"{'p' * 60}-$<matrix.day>"
    compiled = compile_text(tmp_path, nested(f"$<needs.{name}.output_dir>", needs=f"needs: [{name}]\n"))
    for made in compiled.launches:
        assert made.app.roles[0].args == [f"$<needs.{made.needs[0].job}.output_dir>"]


def test_the_host_of_a_role_may_be_named_by_a_variable(tmp_path: Path) -> None:
    top = "vars: {role: {type: str, default: main}}\n"
    assert nested_args(tmp_path, nested("$<role.$<var.role>.host>", top=top)) == ["$<role.main.host>"]


@pytest.mark.parametrize("outer", ["needs.prepare-$<matrix.day>.output_dir", "var.$<matrix.day>"])
def test_an_escaped_reference_is_text(tmp_path: Path, outer: str) -> None:
    meant = [outer.replace("$<matrix.day>", day) for day in ("1", HASHED, "0p1")]
    assert nested_args(tmp_path, nested(f"$$<{outer}>")) == [f"$$<{each}>" for each in meant]


# Each kind of reference

TOP = (
    "version: 1\nname: job\nproject: vision\n"
    "vars: {n: {type: int, default: 02}, f: {type: float, default: 0.50}, b: {type: bool, default: true},\n"
    "       s: {type: str, default: text}}\n"
    "matrix: {i: [3], r: {range: [5, 6]}, x: [1.50], o: [false], t: [word]}\n"
    "targets: {dev: {}}\n"
)


def job(folder: Path, role: str, rest: str = "") -> Launch:
    made = launches(folder, TOP + f"roles: {{main: {{entrypoint: x, {role}}}}}\n{rest}", target="dev")
    (only,) = made.values()
    return only


VALUES = {
    "var.n": "02",
    "var.f": "0.50",
    "var.b": "true",
    "var.s": "text",
    "matrix.i": "3",
    "matrix.r": "5",
    "matrix.x": "1.50",
    "matrix.o": "false",
    "matrix.t": "word",
    "job.name": "job-3-false-5-word-1p5",
    "job.project": "vision",
    "target.name": "dev",
}


@pytest.mark.parametrize("name", VALUES)
def test_a_reference_in_a_text_becomes_its_value_as_written(tmp_path: Path, name: str) -> None:
    role = job(tmp_path, f"args: ['<$<{name}>>', $<{name}>], env: {{A: $<{name}>}}").app.roles[0]
    assert role.args == [f"<{VALUES[name]}>", VALUES[name]]
    assert role.env == {"A": VALUES[name]}


def test_git_references_name_the_commit_and_branch(repository: Path) -> None:
    sha = git(repository, "rev-parse", "HEAD")
    role = job(repository, "args: [$<git.sha>, 'a-$<git.short_sha>', $<git.branch>]").app.roles[0]
    assert role.args == [sha, f"a-{sha[:7]}", "main"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("var.n", 2), ("var.f", 0.5), ("var.b", True), ("var.s", "text")],
        *[("matrix.i", 3), ("matrix.r", 5), ("matrix.x", 1.5), ("matrix.o", False), ("matrix.t", "word")],
        *[("target.name", "dev"), ("job.project", "vision"), ("git.branch", "main")],
    ],
)
def test_alone_a_reference_keeps_the_type_of_its_value(repository: Path, name: str, value: object) -> None:
    made = job(repository, f"metadata: {{a: $<{name}>}}").app.roles[0].metadata["a"]
    assert (made, type(made)) == (value, type(value))


@pytest.mark.parametrize(
    "name", [*VALUES, "git.sha", "git.short_sha", "git.branch", "job.dir", "app_id", "no"]
)
def test_doubled_dollars_write_the_reference_itself(tmp_path: Path, name: str) -> None:
    made = job(tmp_path, f"args: [$$<{name}>]", f"description: $$<{name}>\n")
    assert made.description == f"$<{name}>"
    assert bind(made.app, directory="/d", home="/h").roles[0].args == [f"$$<{name}>"]  # the run takes one off


# git


SHA = HEAD + "roles: {main: {entrypoint: x, args: [$<git.sha>, $<git.short_sha>, $<git.branch>]}}\n"


def test_a_dirty_tree_is_an_error_unless_it_is_allowed(repository: Path) -> None:
    (repository / "tracked").write_text("2")
    compiled = compile_text(repository, SHA)
    assert places(compiled) == ["3:38 dirty-tree", "3:50 dirty-tree", "3:68 dirty-tree"]
    assert "--allow-dirty" in compiled.diagnostics[0].hint
    (made,) = launches(repository, SHA, allow_dirty=True).values()
    sha = git(repository, "rev-parse", "HEAD")
    assert made.app.roles[0].args == [f"{sha}-dirty", f"{sha[:7]}-dirty", "main"]


def test_a_dirty_tree_means_nothing_to_a_file_without_git_references(repository: Path) -> None:
    (repository / "tracked").write_text("2")
    text = HEAD + "roles: {main: {entrypoint: x}}  # $<git.sha>\n"
    assert compile_text(repository, text).diagnostics == ()


def test_validate_accepts_a_dirty_tree_and_asks_nothing(repository: Path) -> None:
    (repository / "tracked").write_text("2")
    assert compile_text(repository, SHA, placeholders=True).diagnostics == ()


@pytest.mark.parametrize("placeholders", [False, True])
def test_without_a_repository_there_is_no_commit(tmp_path: Path, placeholders: bool) -> None:
    compiled = compile_text(tmp_path, SHA, placeholders=placeholders)
    assert lines(compiled) == [
        "3:38 no-commit `$<git.sha>` has no value: the file is in no git repository",
        "3:50 no-commit `$<git.short_sha>` has no value: the file is in no git repository",
        "3:68 no-commit `$<git.branch>` has no value: the file is in no git repository",
    ]


def test_git_references_are_errors_before_the_first_commit_and_off_every_branch(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "checkout", "-q", "--detach")
    assert places(compile_text(repository, SHA)) == ["3:68 no-commit"]
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    assert "the repository has no commit yet" in lines(compile_text(tmp_path / "new", SHA))[0]


def test_a_new_commit_changes_the_digest_of_a_job_that_names_the_commit(repository: Path) -> None:
    (before,) = launches(repository, SHA).values()
    git(repository, "commit", "--allow-empty", "-qm", "second")
    (after,) = launches(repository, SHA).values()
    assert digest(document(before)) != digest(document(after))


# Where they may stand
