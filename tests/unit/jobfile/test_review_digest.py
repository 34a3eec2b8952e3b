"""The review digest: the same on every commit, whatever a document takes from git."""

from pathlib import Path

import pytest

from launcher.plan.effects import start_of
from launcher.specs import canonical
from tests.unit.jobfile.words import HEAD, git, launches

ROLE = "roles: {main: {entrypoint: x, args: [%s]}}\n"
COMPONENT = """\
from launcher.specs import AppDef, Role

def made(tag: str) -> AppDef:
    with open(__file__ + ".called", "a") as file:
        file.write("x")
    return AppDef("made", [Role("main", image="", entrypoint="echo", args=[tag])])
"""


def commit(repository: Path, name: str) -> None:
    (repository / name).write_text(name)
    git(repository, "add", name)
    git(repository, "commit", "-qm", name)


@pytest.mark.parametrize("name", ["git.sha", "git.short_sha", "git.branch"])
def test_a_start_is_the_same_on_two_commits_and_branches(repository: Path, name: str) -> None:
    text = HEAD + ROLE % f"a-$<{name}>"
    (first,) = launches(repository, text).values()
    git(repository, "checkout", "-qb", "other")
    commit(repository, "more")
    (second,) = launches(repository, text).values()
    assert canonical.document(first) != canonical.document(second)
    assert start_of(first) == start_of(second)
    assert start_of(first).digest == start_of(second).digest


def test_a_dirty_commit_is_the_same_start(repository: Path) -> None:
    text = HEAD + ROLE % "$<git.sha>"
    (clean,) = launches(repository, text).values()
    (repository / "tracked").write_text("2")
    (dirty,) = launches(repository, text, allow_dirty=True).values()
    assert start_of(clean) == start_of(dirty)


def test_fields_without_git_values_still_count(repository: Path) -> None:
    (one,) = launches(repository, HEAD + ROLE % "$<git.sha>, 1").values()
    (two,) = launches(repository, HEAD + ROLE % "$<git.sha>, 2").values()
    assert one.review_digest != two.review_digest


def test_a_document_without_git_values_is_its_own_review_digest(repository: Path) -> None:
    (made,) = launches(repository, HEAD + ROLE % "1").values()
    assert made.review_digest == ""
    assert start_of(made).review == canonical.digest(canonical.document(made))


@pytest.mark.slow
def test_the_arguments_of_a_component_keep_the_commit(repository: Path) -> None:
    (repository / "parts.py").write_text(COMPONENT)
    called = repository / "parts.py.called"
    launches(repository, HEAD + "component: parts.py:made\nargs: {tag: plain}\n")
    calls = len(called.read_text())
    called.unlink()
    text = HEAD + "component: parts.py:made\nargs: {tag: $<git.sha>}\nmetadata: {sha: $<git.sha>}\n"
    (made,) = launches(repository, text).values()
    assert made.app.roles[0].args == [git(repository, "rev-parse", "HEAD")]
    assert made.review_digest == canonical.digest(canonical.document(made))
    assert len(called.read_text()) == calls
