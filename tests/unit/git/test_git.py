"""`launcher.git`: which work tree a file is in, whose it is, its commit. With real repositories."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.errors import CommandError
from launcher.git import Repository, normalise_remote, repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


PARTS = [f"{role}_{part}" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")]
WHO = {f"GIT_{part}": "x@example.org" for part in PARTS}


def git(folder: Path, *args: str) -> str:
    command = ["git", "-C", str(folder), *args]
    done = subprocess.run(command, env={**os.environ, **WHO}, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def work_tree(tmp_path: Path) -> Path:
    """A repository with one commit and one file, `jobs/train.launcher.yaml`."""
    root = tmp_path / "repo"
    (root / "jobs").mkdir(parents=True)
    (root / "jobs" / "train.launcher.yaml").write_text("version: 1\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    return root


def found(path: Path) -> Repository:
    repo = repository(str(path))
    assert repo is not None
    return repo


# Finding it


def test_every_path_in_a_work_tree_finds_the_same_repository(work_tree, monkeypatch):
    repo = found(work_tree / "jobs" / "train.launcher.yaml")
    assert repo.root == str(work_tree)
    monkeypatch.chdir(work_tree / "jobs")
    for path in (
        work_tree,
        work_tree / "jobs",
        work_tree / "jobs" / "not-yet.yaml",
        Path("train.launcher.yaml"),
    ):
        assert found(path) is repo


def test_the_inner_of_two_repositories_wins(work_tree: Path):
    inner = work_tree / "vendor"
    inner.mkdir()
    git(inner, "init", "-q")
    assert found(inner / "x").root == str(inner)
    assert found(work_tree / "x").root == str(work_tree)


def test_an_added_work_tree_is_a_root_of_its_own_with_the_same_origin(work_tree: Path, tmp_path: Path):
    git(work_tree, "remote", "add", "origin", "https://host/team/jobs.git")
    git(work_tree, "worktree", "add", "-q", str(tmp_path / "second"))
    second = found(tmp_path / "second" / "jobs")
    assert second.root == str(tmp_path / "second")
    assert second.origin == "host/team/jobs"


def test_work_trees_of_a_repository_without_remotes_belong_to_this_repository(work_tree, tmp_path):
    assert found(work_tree).origin is None
    git(tmp_path, "clone", "-q", "--bare", str(work_tree), "all.git")
    git(tmp_path / "all.git", "remote", "remove", "origin")
    for main in (work_tree, tmp_path / "all.git"):
        name = f"added-{main.name}"
        git(main, "worktree", "add", "-q", "-b", name, str(tmp_path / name))
        assert found(tmp_path / name).origin == str(main)


def test_a_repository_made_later_is_noticed_and_without_git_installed_there_is_none(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    assert repository(str(tmp_path)) is None
    git(tmp_path, "init", "-q")
    assert found(tmp_path).root == str(tmp_path)
    assert found(tmp_path).commit() == ""
    git(tmp_path, "init", "-q", "later")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert repository(str(tmp_path / "later")) is None


def test_a_thousand_files_start_no_process(work_tree: Path, monkeypatch: pytest.MonkeyPatch):
    found(work_tree)
    monkeypatch.setenv("PATH", "")  # a process could not be started now
    assert {found(work_tree / "jobs" / f"{n}.yaml").root for n in range(1000)} == {str(work_tree)}


# Origin


def test_the_origin_is_the_remote_of_that_name_else_the_first_one_as_it_is_now(work_tree: Path):
    git(work_tree, "remote", "add", "upstream", "https://host/team/jobs")
    git(work_tree, "remote", "add", "fork", "https://host/me/jobs.git")
    assert found(work_tree).origin == "host/me/jobs"
    git(work_tree, "remote", "add", "origin", "git@host:team/jobs.git")
    assert found(work_tree).origin == "host/team/jobs"
    git(work_tree, "remote", "set-url", "origin", "https://host/other")
    assert found(work_tree).origin == "host/other"


def test_the_rewriting_rules_of_the_user_apply(work_tree: Path):
    git(work_tree, "config", "url.https://host/.insteadOf", "gh:")
    git(work_tree, "remote", "add", "origin", "gh:team/jobs")
    assert found(work_tree).origin == "host/team/jobs"


def test_a_partial_clone_has_the_same_origin(work_tree: Path, tmp_path: Path):
    url = f"file://{work_tree}"
    git(tmp_path, "clone", "-q", "--no-local", "--filter=blob:none", url, str(tmp_path / "clone"))
    assert found(tmp_path / "clone").origin == str(work_tree)


def test_the_environment_of_a_git_hook_does_not_change_which_repository_is_found(
    work_tree, tmp_path, monkeypatch
):
    git(work_tree, "remote", "add", "origin", "https://host/team/jobs")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert found(work_tree).origin == "host/team/jobs"


def test_the_error_of_a_broken_repository_has_the_message_of_git(work_tree: Path):
    (work_tree / ".git" / "HEAD").unlink()
    with pytest.raises(CommandError, match="not a git repository"):
        _ = found(work_tree).origin


@pytest.mark.parametrize(("url", "want"), [
    ("https://host/team/jobs.git", "host/team/jobs"),
    ("https://host/team/jobs/", "host/team/jobs"),
    ("http://HOST/Team/Jobs", "host/Team/Jobs"),
    ("https://user:secret@host:8443/team/jobs.git", "host/team/jobs"),
    ("https://user:p@ss@host/team/jobs", "host/team/jobs"),
    ("https://host/team/jobs.git?token=secret#x", "host/team/jobs"),
    ("ssh://git@host:2222/team/jobs.git", "host/team/jobs"),
    ("ssh://git@[2001:db8::1]:22/team/jobs", "[2001:db8::1]/team/jobs"),
    ("git@host:team/jobs.git", "host/team/jobs"), ("git@host:/team//jobs.git/", "host/team/jobs"),
    ("host:jobs", "host/jobs"), ("git@[2001:db8::1]:team/jobs", "[2001:db8::1]/team/jobs"),
    ("git://host/jobs", "host/jobs"), ("/srv/git/jobs.git", "/srv/git/jobs"), ("/srv/jobs/.git", "/srv/jobs"),
    ("file:///srv/git/jobs.git", "/srv/git/jobs"), ("../jobs.git", "/home/me/jobs"),
    ("./odd:name", "/home/me/repo/odd:name"),
])  # fmt: skip
def test_every_way_to_write_a_remote_has_one_normal_form(url: str, want: str):
    assert normalise_remote(url, "/home/me/repo") == want


# Commit


def test_a_changed_file_makes_the_commit_dirty_and_an_untracked_file_does_not(work_tree: Path):
    head = git(work_tree, "rev-parse", "HEAD")
    (work_tree / "note.txt").write_text("x")
    assert found(work_tree).commit() == head
    (work_tree / "jobs" / "train.launcher.yaml").write_text("version: 1\nname: x\n")
    assert found(work_tree).commit() == f"{head}-dirty"
    git(work_tree, "add", ".")
    assert found(work_tree).commit() == f"{head}-dirty"


@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_the_history_has_full_ids_and_subjects_whatever_git_hashes_with(tmp_path: Path, hashes: str):
    git(tmp_path, "init", "-q", f"--object-format={hashes}")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one of two")
    assert found(tmp_path).first_parents(limit=5) == [(git(tmp_path, "rev-parse", "HEAD"), "one of two")]


def test_a_range_of_commits_names_no_commit(work_tree: Path):
    assert found(work_tree).commit_of("main") == git(work_tree, "rev-parse", "HEAD")
    assert found(work_tree).commit_of("main..HEAD") == ""


def test_asking_for_the_commit_writes_nothing(work_tree: Path):
    os.utime(work_tree / "jobs" / "train.launcher.yaml", (1, 1))  # git would like to refresh its index
    before = (work_tree / ".git" / "index").stat().st_mtime_ns
    found(work_tree).commit()
    assert (work_tree / ".git" / "index").stat().st_mtime_ns == before


# Ignored files


def test_ignored_paths_are_distinguished_from_the_others(work_tree: Path):
    (work_tree / ".gitignore").write_text("build/\n*.tmp.yaml\njobs/train*\n")
    (work_tree / "build").mkdir()
    kept = ["a.yaml", "jobs/train.launcher.yaml"]  # git never ignores what it tracks
    names = ["b.tmp.yaml", "build", "build/c.yaml", "jobs/line\nbreak.tmp.yaml"]
    ignored = {str(work_tree / name) for name in names}
    assert found(work_tree).ignored([*ignored, *(str(work_tree / name) for name in kept)]) == ignored
    assert found(work_tree).ignored([]) == frozenset()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_of_another_user_is_refused_with_the_command_that_allows_it(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    for path in (work_tree, *work_tree.rglob("*")):
        os.chown(path, 12345, 12345)
    with pytest.raises(CommandError, match="another user owns it") as refused:
        found(work_tree).head()
    advice = str(refused.value.hint).partition("`")[2].rstrip("`")
    subprocess.run(["sh", "-c", advice], check=True)
    assert found(work_tree).head().oid


# A checkout is data


def hostile(work_tree: Path, canary: Path) -> None:
    """Everything in a repository that makes git start a program, each of which would write to `canary`."""
    program = work_tree.parent / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{canary}'\ncat\n")
    program.chmod(0o755)
    hooks = work_tree / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "post-checkout", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(program, hooks / name)
    (work_tree / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (work_tree / "text").write_text("text")
    git(work_tree, "add", ".")
    git(work_tree, "commit", "-q", "-m", "attributes")
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand", "core.pager", "core.editor"),
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv"),
        *(
            "diff.evil.command",
            "diff.external",
            "gpg.program",
            "credential.helper",
            "uploadpack.packObjectsHook",
        ),
    ):
        git(work_tree, "config", key, str(program))
    git(work_tree, "config", "filter.evil.required", "true")
    git(work_tree, "config", "log.showSignature", "true")
    sign(work_tree)
    os.utime(work_tree / "text", ns=(1, 1))  # git has to look into the file
    canary.unlink(missing_ok=True)


def sign(work_tree: Path) -> None:
    """Give the commit checked out a signature, which git would have to check."""
    head, _, message = git(work_tree, "cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n none\n -----END PGP SIGNATURE-----"
    text = work_tree.parent / "commit"
    text.write_text(f"{head}\n{signature}\n\n{message}\n")
    made = git(work_tree, "hash-object", "--no-filters", "-t", "commit", "-w", str(text))
    git(work_tree, "update-ref", "HEAD", made)


def test_no_program_that_a_checkout_names_is_run(work_tree: Path, tmp_path: Path):
    canary = tmp_path / "canary"
    hostile(work_tree, canary)
    git(work_tree, "remote", "add", "origin", f"ext::touch {canary}")
    repo = found(work_tree)
    assert repo.head().oid
    assert not repo.head().is_dirty
    repo.commit()
    assert repo.origin
    repo.ignored(["text"])
    assert [subject for _, subject in repo.first_parents(limit=9)] == ["attributes", "one"]
    with repo.exported(repo.commit_of("HEAD")):
        pass
    assert not canary.exists(), canary.read_text()


def test_a_configured_work_tree_of_git_is_ignored(work_tree: Path):
    """Otherwise a plan would call job files added although the commit has them."""
    git(work_tree, "config", "core.worktree", str(work_tree.parent))
    repo = found(work_tree)
    assert not repo.head().is_dirty
    assert repo.tracked(["."]) == ("jobs/train.launcher.yaml",)
    with repo.exported(repo.commit_of("HEAD")) as folder:
        assert os.path.exists(f"{folder}/jobs/train.launcher.yaml")


def test_a_commit_has_the_contents_of_its_id_whatever_replaces_it(work_tree: Path):
    first = found(work_tree).commit_of("HEAD")
    (work_tree / "jobs" / "train.launcher.yaml").write_text("version: 2\n")
    git(work_tree, "commit", "-qam", "two")
    git(work_tree, "replace", first, "HEAD")
    with found(work_tree).exported(first) as folder:
        assert Path(folder, "jobs", "train.launcher.yaml").read_text() == "version: 1\n"


def test_the_parts_of_a_submodule_belong_to_the_submodule(work_tree: Path, tmp_path: Path):
    """Git writes a `core.worktree` into the configuration of a submodule."""
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(work_tree), "part")
    part = found(outer / "part" / "jobs")
    assert part.root == str(outer / "part")
    assert part.origin == str(work_tree)
    assert part.tracked(["."]) == ("jobs/train.launcher.yaml",)
    assert not part.head().is_dirty
    git(outer / "part", "remote", "remove", "origin")
    assert Repository(part.root).origin is None


def test_a_filter_of_the_user_is_used_also_where_the_checkout_has_a_filter_of_that_name(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "config").write_text('[filter "up"]\n clean = tr a-z A-Z\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    (work_tree / ".gitattributes").write_text("*.up filter=up\n")
    (work_tree / "a.up").write_text("text")
    git(work_tree, "add", ".")
    git(work_tree, "commit", "-q", "-m", "filtered")
    git(work_tree, "config", "filter.up.clean", f"touch {tmp_path}/canary")
    os.utime(work_tree / "a.up", ns=(1, 1))
    assert not found(work_tree).head().is_dirty
    assert not (tmp_path / "canary").exists()
