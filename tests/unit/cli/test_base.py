"""`plan --base`: which effects a commit had pending already, and job files compared with job files."""

import fcntl
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.github.repository import git
from tests.scenario import Scenario


def job(name: str, word: str = "done") -> str:
    return f"version: 1\nname: {name}\nroles: {{main: {{entrypoint: echo, args: [{word}]}}}}\n"


@pytest.fixture
def repo(scenario: Scenario) -> Path:
    """A branch that has changed `a`, added `c`, removed `gone` and kept `b` since main."""
    git(scenario.folder, "init", "-q")
    for name in ("a", "b", "gone"):
        (scenario.folder / f"{name}.launcher.yaml").write_text(job(name, "$<git.sha>"))
    git(scenario.folder, "add", ".")
    git(scenario.folder, "commit", "-qm", "first")
    git(scenario.folder, "checkout", "-qb", "change")
    (scenario.folder / "a.launcher.yaml").write_text(job("a", "other"))
    (scenario.folder / "c.launcher.yaml").write_text(job("c"))
    git(scenario.folder, "rm", "-q", "gone.launcher.yaml")
    git(scenario.folder, "add", ".")
    git(scenario.folder, "commit", "-qm", "second")
    return scenario.folder


def lines(text: str) -> dict[str, str]:
    return {line.split()[1]: line.rpartition("; ")[2] for line in text.splitlines() if line.startswith("+")}


def test_each_line_says_whether_its_effect_is_new_or_already_pending(repo: Path, scenario: Scenario) -> None:
    shown = scenario.plan(repo, "--base", "main")
    assert lines(shown) == {"a": "from this change", "b": "already pending on main", "c": "from this change"}
    assert "already pending on main" in scenario.plan(repo, "--base", "main", "--format", "markdown")


@pytest.mark.slow
def test_a_stop_of_a_job_that_the_base_lacks_too_is_already_pending(repo: Path, scenario: Scenario) -> None:
    git(repo, "checkout", "-q", "main")
    for name in ("gone", "older"):
        text = job(name).replace("echo", "sleep").replace("done", "'1000'")
        (repo / f"{name}.launcher.yaml").write_text(text)
        scenario.apply(repo / f"{name}.launcher.yaml")
    os.remove(repo / "older.launcher.yaml")
    git(repo, "commit", "-qam", "gone sleeps")
    git(repo, "rm", "-q", "gone.launcher.yaml")
    try:
        shown = scenario.plan(repo, "--base", "main", "--prune", "--allow-dirty")
    finally:
        scenario.cancel("gone")
        scenario.cancel("older")
    rows = [line for line in shown.splitlines() if line.startswith("-  ")]
    stops = {row.split()[1]: row.rpartition("; ")[2] for row in rows}
    assert stops == {"gone": "from this change", "older": "already pending on main"}


def test_offline_compares_documents_and_touches_no_state(repo: Path, scenario: Scenario) -> None:
    home = repo / "no-home"
    shown = scenario.launcher(
        "plan", repo, "--base", "main", "--offline", env={**os.environ, "LAUNCHER_HOME": str(home)}
    ).out
    assert "+   default/c: added" in shown
    assert "~   default/a: 1 change" in shown
    assert "-   default/gone: removed" in shown
    assert "1 added, 1 changed, 1 removed, 1 unchanged" in shown
    assert "no state folder and no engine was asked" in shown
    assert not home.exists()


@pytest.mark.parametrize("format", ["json", "markdown", "github"])
def test_a_comparison_has_the_formats_of_plans(repo: Path, scenario: Scenario, format: str) -> None:
    shown = scenario.plan(repo, "--base", "main", "--offline", "--format", format)
    if format != "json":
        assert "1 added, 1 changed, 1 removed, 1 unchanged" in shown
        return
    found: dict[str, Any] = json.loads(shown)
    assert [each["job"] for each in found["removed"]] == ["gone"]
    assert [each["key"]["job"] for each in found["changed"]] == ["a"]


def test_a_comparison_says_by_its_exit_code_whether_there_is_a_difference(repo, scenario):
    scenario.plan(repo, "--base", "main", "--offline", "--detailed-exitcode", code=2)
    scenario.plan(repo, "--base", "HEAD", "--offline", "--detailed-exitcode", code=0)


def test_nothing_is_written_into_the_repository_and_no_folder_is_left(repo: Path, scenario: Scenario) -> None:
    before = {path: path.stat().st_mtime_ns for path in (repo / ".git").rglob("*") if path.is_file()}
    temporary = repo.parent / "temporary"
    temporary.mkdir()
    left_behind(temporary / "launcher-base-dead")
    scenario.launcher("plan", repo, "--base", "main", env={**os.environ, "TMPDIR": str(temporary)})
    assert list(temporary.iterdir()) == []
    after = {path: path.stat().st_mtime_ns for path in (repo / ".git").rglob("*") if path.is_file()}
    assert after == before


def left_behind(folder: Path) -> None:
    """Make the folder of a commit that a process exported two minutes ago."""
    folder.mkdir()
    (folder / "tree").mkdir()
    os.utime(folder, (time.time() - 120,) * 2)


def test_the_folder_of_a_process_that_lives_is_not_removed(repo: Path, scenario: Scenario) -> None:
    """The process may have no /proc, or another number in a container that shares /tmp."""
    temporary = repo.parent / "temporary"
    temporary.mkdir()
    (temporary / "launcher-base-new").mkdir()  # about to be locked
    left_behind(temporary / "launcher-base-999999999-old")
    lock = os.open(temporary / "launcher-base-999999999-old", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scenario.launcher("plan", repo, "--base", "main", env={**os.environ, "TMPDIR": str(temporary)})
    finally:
        os.close(lock)
    assert sorted(os.listdir(temporary)) == ["launcher-base-999999999-old", "launcher-base-new"]


@pytest.mark.parametrize("name", ["nope", "--upload-pack=touch", "-x", ""])
def test_a_missing_base_commit_is_named(repo: Path, scenario: Scenario, name: str) -> None:
    shown = scenario.launcher("plan", repo, f"--base={name}", code=1).err
    assert f"this clone has no commit `{name}`" in shown
    assert "fetch it: `git fetch --all`; `git branch --all` lists branches" in shown


def test_the_branch_that_was_meant_is_named(repo: Path, scenario: Scenario) -> None:
    assert "did you mean `main`?" in scenario.launcher("plan", repo, "--base=mian", code=1).err


def test_the_advice_for_a_shallow_clone_brings_the_base(repo: Path, scenario: Scenario) -> None:
    clone = repo.parent / "clone"
    git(repo.parent, "clone", "-q", "--depth=1", "--branch=change", f"file://{repo}", str(clone))
    shown = scenario.launcher("plan", clone, "--base=origin/main", cwd=clone, code=1).err
    assert "`fetch-depth: 0` of actions/checkout, or `GIT_DEPTH: 0` of GitLab" in shown
    advice = shown.partition("fetch all commits: `")[2].partition("`")[0]
    subprocess.run(["sh", "-c", advice], check=True, cwd=clone)
    scenario.launcher("plan", clone, "--base=origin/main", cwd=clone)


def test_a_base_with_errors_fails_no_plan(repo: Path, scenario: Scenario) -> None:
    git(repo, "checkout", "-q", "main")
    (repo / "b.launcher.yaml").write_text("version: 1\nnam: b\n")
    git(repo, "commit", "-qam", "broken")
    git(repo, "checkout", "-q", "change")
    done = scenario.launcher("plan", repo, "--base", "main")
    assert lines(done.out)["b"] == "from this change"
    assert "main has" in done.err


def test_offline_needs_a_base(repo: Path, scenario: Scenario) -> None:
    assert "--offline needs --base" in scenario.launcher("plan", repo, "--offline", code=64).err


def test_a_filter_of_the_checkout_runs_no_program(repo: Path, scenario: Scenario) -> None:
    (repo / ".gitattributes").write_text("*.yaml filter=evil\n")
    git(repo, "config", "filter.evil.smudge", f"touch {repo}/evil; cat")
    subprocess.run(["touch", *repo.glob("*.yaml")], check=True)
    scenario.plan(repo, "--base", "main")
    assert not (repo / "evil").exists()


def test_objects_of_git_lfs_that_were_not_fetched_are_compared_as_pointers(
    repo: Path, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter stands for git-lfs, which cannot download objects without the token of the checkout."""
    script = 'test "$GIT_LFS_SKIP_SMUDGE" = 1 && cat'
    config = f'[filter "lfs"]\n smudge = {json.dumps(script)}\n clean = cat\n required = true\n'
    (tmp_path / "config").write_text(f"{config}[user]\n name = ann\n email = ann@example.com\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    git(repo, "checkout", "-q", "main")
    (repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    (repo / "weights.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    (repo / "b.launcher.yaml").write_text(f"{job('b')}workspace: .\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "weights")
    shown = scenario.plan(repo, "--base", "main")
    assert lines(shown)["b"] == "already pending on main"


def test_a_workspace_with_a_submodule_is_compared_with_the_commit_of_the_submodule_that_the_base_has(
    repo: Path, scenario: Scenario, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.mkdir()
    git(part, "init", "-q")
    for text in ("old", "new"):
        (part / "text").write_text(text)
        git(part, "add", ".")
        git(part, "commit", "-qm", text)
    git(repo, "checkout", "-q", "main")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "lib")
    (repo / "b.launcher.yaml").write_text(f"{job('b')}workspace: .\n")
    (repo / "lib.index").write_text("a file beside the submodule\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "with a submodule")
    assert lines(scenario.plan(repo, "--base", "main"))["b"] == "already pending on main"
    git(repo / "lib", "checkout", "-q", "HEAD~1")
    changed = scenario.plan(repo, "--base", "main", "--allow-dirty")
    assert lines(changed)["b"] == "from this change"


def test_offline_jobs_of_a_matrix_that_differ_alike_share_a_line(repo: Path, scenario: Scenario) -> None:
    file = repo / "sweep.launcher.yaml"

    def write(first: int, word: str) -> None:
        top = f"matrix: {{n: {{range: [{first}, {first + 40}]}}}}\n"
        file.write_text(top + job("sweep", f"'{word} $<matrix.n>'"))

    git(repo, "checkout", "-q", "main")
    write(0, "old")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "sweep")
    write(12, "new")
    shown = scenario.launcher("plan", file, "--base", "main", "--offline").out
    assert [line for line in shown.splitlines() if not line.startswith("      ")][:3] == [
        "+   default/sweep-40 and 11 more: added",
        "~   default/sweep-12 and 27 more: 1 change",
        "-   default/sweep-0 and 11 more: removed",
    ]
    text = scenario.launcher("plan", file, "--base", "main", "--offline", "--format", "markdown").out
    assert "`default/sweep-12` and 27 more 1 change" in text
    in_full = scenario.launcher("plan", file, "--base", "main", "--offline", "--all").out
    assert in_full.count("default/sweep-") == 12 + 28 + 12
