"""References: the value and the type of each kind, its escape, and that no other text with a `$` is touched.

A reference may stand inside of another one: to the output folder of a need, and to the host of a role.
"""

from pathlib import Path

import pytest

from launcher.specs import AppDef, bind, digest, document
from tests.unit.jobfile.words import HEAD, compile_text, git, launch, launches, lines, places

VARS = "vars: {v: {type: str, default: x}, n: {type: int, default: 2}}\n"


def app(folder: Path, role: str, top: str = "") -> AppDef:
    return launch(folder, HEAD + VARS + top + f"roles:\n  main:\n    entrypoint: run\n    {role}\n").app


def first_arg(folder: Path, arg: str) -> str:
    return app(folder, f"args: [{arg}]").roles[0].args[0]


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


def test_the_folder_of_the_job_is_filled_in_when_bound(tmp_path: Path) -> None:
    made = app(tmp_path, "image: $<job.dir>/root\n    args: [$<job.dir>, $$<job.dir>]")
    assert made.roles[0].args == ["$<job.dir>", "$$<job.dir>"]
    bound = bind(made, directory="/repo/jobs", home="/home/me")
    assert bound.roles[0].image == "/repo/jobs/root"
    assert bound.roles[0].args[0] == "/repo/jobs"


def test_a_long_name_is_cut_as_in_needs(tmp_path: Path) -> None:
    name = f"{'p' * 60}-$<matrix.day>"
    args = f"args: ['$<needs.{name}.output_dir>']"
    top = f"{HEAD}matrix: {{day: [1, B F, 0.1]}}\nneeds: [{name}]\n"
    text = f"{top}roles: {{main: {{entrypoint: cat, {args}}}}}\n"
    for made in launches(tmp_path, text).values():
        assert made.app.roles[0].args == [f"$<needs.{made.needs[0].job}.output_dir>"]


# Each kind of reference

NAMES = ["var.n", "matrix.i", *("job.name", "job.project", "job.dir", "target.name")]
NAMES += ["git.sha", "git.short_sha", "git.branch", "app_id", "no"]


def test_git_references_name_the_commit_and_branch(repository: Path) -> None:
    sha = git(repository, "rev-parse", "HEAD")
    made = app(repository, "args: [$<git.sha>, 'a-$<git.short_sha>', $<git.branch>]")
    assert made.roles[0].args == [sha, f"a-{sha[:7]}", "main"]


@pytest.mark.parametrize("name", NAMES)
def test_doubled_dollars_write_the_reference_itself(tmp_path: Path, name: str) -> None:
    top = f"description: $$<{name}>\nmatrix: {{i: [3]}}\n"
    role = f"roles: {{main: {{entrypoint: x, args: [$$<{name}>]}}}}\n"
    [made] = launches(tmp_path, f"{HEAD}{VARS}{top}{role}").values()
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


def test_git_references_are_errors_before_the_first_commit_and_off_every_branch(repository, tmp_path):
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
