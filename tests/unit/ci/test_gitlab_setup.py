"""What `ci doctor` finds missing on GitLab: each fault by name, and none in the file that init writes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ruamel.yaml import YAML

from launcher.ci.doctor import Facts, gitlab_checks
from launcher.cli.init_ci import ENGINES, Setup, pipeline_files
from tests.gitlab.fake import FakeGitLab
from tests.unit.ci.test_gitlab import SHA, client
from tests.unit.plan.world import job

Edit = Callable[[FakeGitLab, dict[str, Any]], object]


@pytest.fixture
def fake() -> Iterator[FakeGitLab]:
    with FakeGitLab() as server:
        yield server


def parsed() -> dict[str, Any]:
    texts = pipeline_files(Setup(ENGINES["local"], "", (), "main", "launcher-jobs==0.1.0"))
    read = YAML(typ="safe", pure=True).load
    return {name: value for text in texts.values() for name, value in read(text).items()}


def states(fake: FakeGitLab, config: Mapping[str, Any], **more: Any) -> dict[str, str]:
    facts = Facts([job("train")], {}, 0, None, {"a": config})
    found = gitlab_checks(facts, client(fake, **more), "main", SHA)
    every = [found.token, *found.files, found.branch]
    assert all(each.remedy for each in every if each.state != "ok")
    return {each.subject: each.state for each in every if each.state != "ok"}


def test_nothing_is_missing_in_a_complete_set_up(fake: FakeGitLab) -> None:
    assert states(fake, parsed()) == {}
    facts = Facts([], {}, 0, None, {"a": parsed()})
    assert gitlab_checks(facts, client(fake), "main", SHA).requirement == "launcher-jobs==0.1.0"


BROKEN: dict[str, tuple[Edit, str]] = {
    "no pipeline": (lambda _, config: config.clear(), "pipeline"),
    "no plan": (lambda _, config: config.pop("launcher plan"), "pipeline"),
    "another script": (lambda _, config: config["launcher apply"].update(script=["make"]), "pipeline"),
    "no environment": (lambda _, config: config["launcher apply"].pop("environment"), "pipeline"),
    "no artifact": (lambda _, config: config["launcher plan"].pop("artifacts"), "artifacts"),
    "no artifact of a failure": (
        lambda _, config: config["launcher apply"]["artifacts"].pop("when"),
        "artifacts",
    ),
    "no group": (lambda _, config: config["launcher apply"].pop("resource_group"), "concurrency"),
    "any order": (
        lambda fake, _: fake.groups["launcher-apply"].update(process_mode="unordered"),
        "concurrency",
    ),
    "no schedule": (lambda fake, _: fake.schedules.clear(), "schedule"),
    "idle schedule": (lambda fake, _: fake.schedules[0].update(active=False), "schedule"),
    "scope": (lambda fake, _: fake.scopes.__setitem__(0, "read_api"), "comments"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_set_up_is_named(fake: FakeGitLab, name: str) -> None:
    edit, subject = BROKEN[name]
    config = parsed()
    edit(fake, config)
    assert states(fake, config)[subject] == "missing"


@pytest.mark.parametrize(
    "job",
    [
        {"extends": "launcher apply"},
        {"extends": [["a"], 1, ".none"]},
        {"artifacts": 1, "environment": [], "variables": "x", "resource_group": {}},
    ],
    ids=["circle", "no names", "other types"],
)
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
def test_merges_that_are_planned_as_they_land_need_no_other_protection(
    fake: FakeGitLab, setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.ci.doctor._shares_tree", lambda _: True)
    assert states(fake, parsed())["branch"] == "missing"
    fake.project.update(setting)
    assert "branch" not in states(fake, parsed())
