"""`verify` and `synced`, from a pull request on a fake GitHub to the output folder of a local job."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.specs.canonical import digest
from tests.forkserver import Done, launcher
from tests.github.fake import REPOSITORY, FakeGitHub
from tests.github.repository import Repository
from tests.scenario import Scenario

JOB = """\
version: 1
name: train
workspace: src
roles: {main: {entrypoint: sh, args: [-c, 'cp data "$LAUNCHER_OUTPUT_DIR/model" # $<git.sha>']}}
"""
BASE = "version: 1\nname: base\nroles: {main: {entrypoint: 'true'}}\n"
NOTIFY = '[notify]\ncommand = ["true"]\n'


@pytest.fixture
def repo(tmp_path: Path, github: FakeGitHub, scenario: Scenario) -> Repository:
    """A repository in which pull request 1 was merged and applied, and its job has succeeded."""
    made = Repository(tmp_path, github, scenario.home)
    made.push({"base.launcher.yaml": BASE, "launcher.toml": NOTIFY})
    made.apply("--without-review", event="workflow_dispatch")
    made.pull_request(1, {"train.launcher.yaml": JOB, "src/data": "1\n"})
    made.plan(1)
    made.merge(1)
    made.apply()
    scenario.wait("train")
    return made


def run(repo: Repository, *argv: str) -> Done:
    """Run a command in the clone of a user who has a token."""
    env = {**os.environ, "LAUNCHER_HOME": str(repo.home), "GITHUB_API_URL": repo.github.url}
    environ = env | {"GITHUB_TOKEN": "t", "GITHUB_REPOSITORY": REPOSITORY}
    return launcher([*argv], cwd=str(repo.work), environ=environ)


def verified(repo: Repository, *argv: str, code: int) -> dict[str, dict[str, Any]]:
    """Return the links of `verify train` by name."""
    done = run(repo, "verify", "train", "--json", *argv)
    assert done.code == code, done.out + done.err
    return {link["name"]: link for link in json.loads(done.out)["links"]}


def test_every_link_of_a_job_that_a_pull_request_has_started_is_checked(repo: Repository) -> None:
    links = verified(repo, "--online", "--strict", code=0)
    assert {link["mark"] for link in links.values()} == {"checked"}
    assert [*links] == ["pull request", "approval", "document", "workspace", "image", "exit", "outputs"]
    assert links["pull request"]["value"] == "#1"
    assert "holds le1:" in links["approval"]["why"]
    shown = run(repo, "verify", "train@1")
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "7 links: 7 checked, 0 missing, 0 wrong")
    assert run(repo, "synced").code == 0
    (model,) = repo.home.glob("local/outputs/*/model")
    model.write_text("9\n")
    assert verified(repo, code=8)["outputs"]["why"] == "its files have changed"


@pytest.mark.slow
def test_a_plan_of_the_merged_pull_request_once_more_takes_no_approval_back(repo: Repository, scenario):
    repo.land(2, {"plain.launcher.yaml": BASE.replace("base", "plain")})
    scenario.wait("plain")
    repo.plan(2)
    done = run(repo, "verify", "plain", "--online")
    assert (done.code, "its check run on GitHub holds le1:" in done.out) == (0, True), done.out


class Records:
    """Both records of the attempt: its row in the ledger, and the file in its folder."""

    def __init__(self, home: Path) -> None:
        self.ledger = home / "ledger.db"
        (self.folder,) = [each.parent for each in home.rglob("train-1-*/attempt.json")]
        self._was = (self.folder / "attempt.json").read_bytes()
        with sqlite3.connect(self.ledger) as db:
            self._row = db.execute("SELECT * FROM attempts WHERE job = 'train'").fetchone()
            self._names = [each[0] for each in db.execute("SELECT * FROM attempts").description]

    def set(self, *, in_file: bool = True, **values: str) -> None:
        with sqlite3.connect(self.ledger) as db:
            for name, value in values.items():
                db.execute(f"UPDATE attempts SET {name} = ? WHERE job = 'train'", (value,))
        renamed = {"commit" if name == "git_commit" else name: value for name, value in values.items()}
        if in_file:
            self.edit(lambda attempt: attempt | renamed)

    def edit(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        attempt = json.loads((self.folder / "attempt.json").read_text())
        (self.folder / "attempt.json").write_text(json.dumps(change(attempt)))

    def restore(self) -> None:
        (self.folder / "attempt.json").write_bytes(self._was)
        self.set(in_file=False, **dict(zip(self._names, self._row, strict=True)))


@pytest.mark.slow
def test_each_record_that_was_changed_makes_its_link_wrong(repo: Repository, github: FakeGitHub) -> None:
    records = Records(repo.home)
    before = repo.push({"src/data": "2\n"})

    def other_document(attempt: dict[str, Any]) -> dict[str, Any]:
        document = {**attempt["document"], "timeout_s": 7}
        return {**attempt, "document": document, "digest": digest(document)}

    changes: dict[str, tuple[str, Callable[[], None]]] = {
        "pull request of the ledger": ("pull request", lambda: records.set(in_file=False, pull_request="2")),
        "effect of both": ("approval", lambda: records.set(effect="le1:" + "0" * 20)),
        "review digest of both": ("approval", lambda: records.set(review="lr1:sha256:" + "0" * 64)),
        "document of the folder": ("document", lambda: records.edit(other_document)),
        "no document": ("document",
            lambda: records.edit(lambda attempt: {**attempt, "document": {"roles": 3}})),
        "digest of both": ("document", lambda: records.set(digest="lr1:sha256:" + "0" * 64)),
        "commit of both": ("workspace", lambda: records.set(git_commit=before)),
        "end in the ledger": ("exit", lambda: records.set(in_file=False, state="failed", exit_code="3")),
        "output digest in the ledger": ("outputs",
            lambda: records.set(in_file=False, output_digest="ou1:sha256:" + "0" * 64)),
    }  # fmt: skip
    for what, (link, change) in changes.items():
        change()
        links = verified(repo, code=8)
        assert links[link]["mark"] == "wrong", (what, links)
        assert links[link]["expected"] != links[link]["found"], what
        records.restore()
    verified(repo, code=0)
    github.checks.clear()
    assert verified(repo, "--online", code=0)["approval"]["mark"] == "missing"
    github.pulls[1]["merged_at"] = None
    assert verified(repo, "--online", code=8)["pull request"]["found"] == "an unmerged pull request"


def synced(repo: Repository, *argv: str, code: int) -> str:
    done = run(repo, "synced", *argv)
    assert done.code == code, done.out + done.err
    return done.out


@pytest.mark.slow
def test_synced_counts_the_merges_since_the_last_applied_commit_on_record_or_on_github(repo, github):
    commit = repo.push({"README": "no job changes"})
    assert synced(repo, code=0) == f"main is applied up to {commit[:7]}\n"
    repo.propose(2, {"base.launcher.yaml": BASE.replace("'true'", "pwd")})
    repo.push({"other.launcher.yaml": BASE.replace("base", "other")})
    newest = repo.merge(2)
    shown = synced(repo, code=2)
    assert ", 3 merges behind\n  pending  default/base, attempt 1 has run\n" in shown
    repo.apply(code=4)
    shown = synced(repo, code=0)
    assert shown == f"main is applied up to {newest[:7]}, 1 job held\n  held     default/other, has not run\n"
    found = json.loads(synced(repo, "--json", code=0))
    assert found.keys() == {"branch", "commit", "applied", "behind", "pending", "held"}
    assert (found["applied"], found["held"][0]["job"], found["behind"]) == (newest, "other", 0)
    commit = repo.push({"late.launcher.yaml": BASE.replace("base", "late")})
    assert ", 1 merge behind, 1 job held\n  pending  default/late" in synced(repo, "--online", code=2)
    (*_, check) = [each for each in github.checks if each["name"].startswith("launcher apply")]
    github.checks.append({**check, "head_sha": commit})  # nothing of the commit was approved
    assert "1 merge behind" in synced(repo, code=2)
    shown = synced(repo, "--online", code=0)
    assert shown.startswith(
        f"main is applied up to {commit[:7]}, 2 jobs held\n  held     default/late, has not run\n"
    )
