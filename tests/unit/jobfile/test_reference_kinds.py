"""Each kind of reference: its value, its type where it stands alone, its escape, the error of a wrong one."""

from pathlib import Path

import pytest

from launcher.specs import Launch, bind
from tests.unit.jobfile.words import HEAD, compile_text, git, launches, lines, places

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
    from launcher.specs import digest, document

    (before,) = launches(repository, SHA).values()
    git(repository, "commit", "--allow-empty", "-qm", "second")
    (after,) = launches(repository, SHA).values()
    assert digest(document(before)) != digest(document(after))


# Where they may stand
