"""`ci doctor` names each fault of a set-up on GitHub and GitLab, and none in the files that init writes."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import launcher
from launcher.ci.doctor import Facts, findings, gitlab_checks
from launcher.ci.forge import Check
from launcher.ci.github import GitHub
from launcher.cli.init_ci import ENGINES, WORKFLOW, EngineChoice, Setup, pipeline_files, workflow
from launcher.git import repository
from launcher.plan.reconcile import Choices
from tests.github.fake import REPOSITORY, FakeGitHub
from tests.github.repository import git
from tests.gitlab.fake import FakeGitLab
from tests.unit.ci.test_gitlab import SHA, client
from tests.unit.plan.world import job

REQUIREMENT = "launcher-jobs==0.1.0"
SETUP = Setup(ENGINES["local"], "", (), "main", REQUIREMENT)

# GitHub

TRAIN = "version: 1\nname: train\nroles: {main: {entrypoint: echo, env: {KEY: {secret: env:DOCTOR_KEY}}}}\n"
SHARED = (
    "version: 1\nname: shared\nworkspace: .\nscheduler: local_dir\n"
    "roles: {main: {image: /usr, entrypoint: bin/true}}\n"
)
BOXED = "version: 1\nname: boxed\nscheduler: local_docker\nroles: {main: {image: box, entrypoint: id}}\n"
RECEIVER = '[notify]\nurl = "https://example.com/hook"\nsecret = "env:HOOK_KEY"\n'


class Checkout:
    """A repository on GitHub that lacks nothing, as a run of the doctor finds it."""

    def __init__(self, folder: Path, fake: FakeGitHub, env: pytest.MonkeyPatch) -> None:
        self.folder, self.fake, self.env = folder, fake, env
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        env.setenv("DOCTOR_KEY", "s3cret")
        self.write({WORKFLOW: workflow(SETUP), "train.launcher.yaml": TRAIN})

    @property
    def commit(self) -> str:
        return git(self.folder, "rev-parse", "HEAD")

    def write(self, files: Mapping[str, str | None]) -> None:
        """Commit files, None for a file to remove."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text or "")
            if text is None:
                path.unlink()
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-qm", "change", "--allow-empty")

    def edit(self, old: str, new: str) -> None:
        """Replace a part of the workflow."""
        text = (self.folder / WORKFLOW).read_text()
        assert old in text
        self.write({WORKFLOW: text.replace(old, new)})

    def be_shallow(self) -> None:
        self.write({"README": "a second commit"})
        clone = self.folder.with_name("shallow")
        git(self.folder, "clone", "-q", "--depth=1", f"file://{self.folder}", str(clone))
        self.folder = clone

    def client(self) -> GitHub:
        return GitHub(self.fake.url, REPOSITORY, "token")

    def be_applied(self) -> None:
        name = "launcher apply (default, default)"
        self.client().add_check(Check(name, "success", "", "", "text", ""), sha=self.commit)

    def missing(self) -> dict[str, str]:
        """Return subject → state and detail of all that is not in order."""
        launches = [launcher.load_job(str(path)) for path in sorted(self.folder.glob("*.launcher.yaml"))]
        tree = repository(str(self.folder))
        assert tree is not None
        found = findings(launches, Choices(), self.client(), tree, branch="main", sha=self.commit)
        assert "s3cret" not in str(found)
        faults = [each for each in found if each.state != "ok"]
        assert all(each.remedy for each in faults if each.state == "missing")
        return {each.subject: f"{each.state}: {each.detail}" for each in faults}


@pytest.fixture
def checkout(tmp_path: Path, launcher_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    with FakeGitHub() as fake:
        yield Checkout(tmp_path / "repo", fake, monkeypatch)


FAULTS: dict[str, tuple[Callable[[Checkout], object], str, str]] = {
    "checks may not be written": (lambda at: at.edit("checks: write, ", ""), "permissions", "checks: write"),
    "comments may not be written": (
        lambda at: at.edit(", pull-requests: write", ""),
        "permissions",
        "pull-requests: write",
    ),
    "waiting applies are dropped": (lambda at: at.edit("queue: max, ", ""), "concurrency", "drops"),
    "applies cancel one another": (
        lambda at: at.edit("cancel-in-progress: false", "cancel-in-progress: true"),
        "concurrency",
        "cancels",
    ),
    "the version is not pinned": (
        lambda at: at.edit(REQUIREMENT, "launcher-jobs"),
        "version",
        "`launcher-jobs`",
    ),
    "no workflow": (lambda at: at.write({WORKFLOW: None}), "workflow", "launcher ci apply"),
    "changes share a workspace": (
        lambda at: at.write({"shared.launcher.yaml": SHARED}),
        "branch",
        "one job (shared)",
    ),
    "no secret": (lambda at: at.env.delenv("DOCTOR_KEY"), "secrets", "not here: DOCTOR_KEY"),
    "no key of a receiver": (lambda at: at.write({"launcher.toml": RECEIVER}), "secrets", "HOOK_KEY"),
    "no ledger": (lambda at: at.be_applied(), "ledger", "no attempt of any job is on record"),
    "no engine": (
        lambda at: (
            at.env.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock"),
            at.write({"boxed.launcher.yaml": BOXED}),
        ),
        "engine local_docker",
        "/nowhere/docker.sock",
    ),
    "the token may not read": (lambda at: at.fake.faults.forbidden.append("GET"), "token", "`checks: read`"),
    "a shallow clone": (lambda at: at.be_shallow(), "clone", "shallow"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_set_up_on_github_is_named(checkout: Checkout, name: str) -> None:
    make, subject, detail = FAULTS[name]
    make(checkout)
    found = checkout.missing()
    assert [*found] == [subject]
    assert found[subject].startswith("missing: ")
    assert detail in found[subject]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_nothing_is_missing_on_github_with_the_workflow_that_init_writes(checkout, engine):
    checkout.write({WORKFLOW: workflow(SETUP._replace(engine=engine))})
    assert checkout.missing() == {}


def test_a_merge_queue_protects_jobs_that_share_a_workspace(checkout: Checkout) -> None:
    checkout.write({"shared.launcher.yaml": SHARED})
    checkout.fake.rules = [{"type": "merge_queue", "parameters": {}}]
    assert checkout.missing() == {}
    checkout.fake.faults.forbidden = ["GET /rules"]
    assert checkout.missing()["branch"].startswith("unknown: ")


# GitLab

Edit = Callable[[FakeGitLab, dict[str, Any]], object]


@pytest.fixture
def fake() -> Iterator[FakeGitLab]:
    with FakeGitLab() as server:
        yield server


def parsed(engine: EngineChoice = SETUP.engine) -> dict[str, Any]:
    texts = pipeline_files(SETUP._replace(engine=engine))
    read = YAML(typ="safe", pure=True).load
    return {name: value for text in texts.values() for name, value in read(text).items()}


def states(fake: FakeGitLab, config: Mapping[str, Any], **more: Any) -> dict[str, str]:
    facts = Facts([job("train")], {}, 0, None, {"a": config})
    found = gitlab_checks(facts, client(fake, **more), "main", SHA)
    every = [found.token, *found.files, found.branch]
    assert all(each.remedy for each in every if each.state != "ok")
    return {each.subject: each.state for each in every if each.state != "ok"}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_nothing_is_missing_on_gitlab_with_the_pipeline_that_init_writes(fake, engine):
    assert states(fake, parsed(engine)) == {}
    facts = Facts([], {}, 0, None, {"a": parsed(engine)})
    assert gitlab_checks(facts, client(fake), "main", SHA).requirement == REQUIREMENT


BROKEN: dict[str, tuple[Edit, str]] = {
    "no pipeline": (lambda _, config: config.clear(), "pipeline"),
    "no plan": (lambda _, config: config.pop("launcher plan"), "pipeline"),
    "another script": (lambda _, config: config["launcher apply"].update(script=["make"]), "pipeline"),
    "no environment": (lambda _, config: config["launcher apply"].pop("environment"), "pipeline"),
    "no artifact": (lambda _, config: config["launcher plan"].pop("artifacts"), "artifacts"),
    "no artifact of a failure": (lambda _, config: config["launcher apply"]["artifacts"].pop("when"),
        "artifacts"),
    "no group": (lambda _, config: config["launcher apply"].pop("resource_group"), "concurrency"),
    "any order": (lambda fake, _: fake.groups["launcher-apply"].update(process_mode="unordered"),
        "concurrency"),
    "no schedule": (lambda fake, _: fake.schedules.clear(), "schedule"),
    "idle schedule": (lambda fake, _: fake.schedules[0].update(active=False), "schedule"),
    "scope": (lambda fake, _: fake.scopes.__setitem__(0, "read_api"), "comments"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_fault_of_a_set_up_on_gitlab_is_named(fake: FakeGitLab, name: str) -> None:
    edit, subject = BROKEN[name]
    config = parsed()
    edit(fake, config)
    assert states(fake, config)[subject] == "missing"


@pytest.mark.parametrize("job", [
    {"extends": "launcher apply"},
    {"extends": [["a"], 1, ".none"]},
    {"artifacts": 1, "environment": [], "variables": "x", "resource_group": {}},
], ids=["circle", "no names", "other types"])  # fmt: skip
def test_a_file_of_another_shape_is_no_crash(fake: FakeGitLab, job: dict[str, Any]) -> None:
    found = states(fake, {"launcher apply": {"script": "launcher ci apply", **job}, "include": []})
    assert found["pipeline"] == "missing"


def test_without_an_access_token_comments_are_not_needed_and_the_rest_is_unknown(fake: FakeGitLab) -> None:
    fake.own_token = ""
    assert states(fake, parsed(), own="") == {"concurrency": "unknown", "schedule": "unknown"}


def test_the_free_tier_without_an_access_token_is_named(fake: FakeGitLab) -> None:
    fake.own_token, fake.is_paid = "", False
    assert states(fake, parsed(), own="")["token"] == "missing"


@pytest.mark.parametrize("setting", [{"merge_trains_enabled": True}, {"merge_method": "ff"}])
def test_merges_that_are_planned_as_they_land_need_no_other_protection(fake, setting, monkeypatch):
    monkeypatch.setattr("launcher.ci.doctor._shares_tree", lambda _: True)
    assert states(fake, parsed())["branch"] == "missing"
    fake.project.update(setting)
    assert "branch" not in states(fake, parsed())
