"""The client of GitLab against a server that keeps state, and fails in the ways of the real server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.ci.forge import Check, Pull
from launcher.ci.gitlab import GitLab, GitLabError
from launcher.ci.runner import CiRunner
from tests.gitlab.fake import JOB_TOKEN, OWN_TOKEN, PROJECT, USER, FakeGitLab

SHA = "a" * 40
HEAD = Pull(number=3, head_sha=SHA, base_ref="main", merged=True)
REF = "refs/merge-requests/3/head"


@pytest.fixture
def fake() -> Iterator[FakeGitLab]:
    with FakeGitLab() as server:
        yield server


def client(
    fake: FakeGitLab,
    slept: list[float] | None = None,
    *,
    own: str = OWN_TOKEN,
    folder: str = "",
    job: int = 0,
) -> GitLab:
    runner = CiRunner(
        provider="gitlab",
        event="push",
        repository=str(PROJECT),
        sha=SHA,
        head_sha=SHA,
        api_url=fake.url,
        token=JOB_TOKEN,
        own_token=own,
        artifacts=folder,
        job_id=job,
    )
    return GitLab(runner, sleep=(slept if slept is not None else []).append)


def checks(name: str = "launcher effects", sha: str = SHA, number: int = 1) -> dict[str, bytes]:
    made = {"id": number, "name": name, "sha": sha, "conclusion": "success", "text": "x"}
    return {"launcher-ci/checks.json": json.dumps({"checks": [made]}).encode()}


def left(fake: FakeGitLab, name: str, ref: str, files: dict[str, bytes], **more: Any) -> None:
    fake.end(fake.begin(name, ref, **more), files)


def test_notes_are_written_edited_and_listed(fake: FakeGitLab) -> None:
    gitlab = client(fake)
    made = gitlab.add_comment(1, "one")
    assert gitlab.edit_comment(1, made.id, "two")
    assert [each.body for each in gitlab.comments(1)] == ["two"]
    assert gitlab.comments(2) == []


def test_a_note_that_was_deleted_is_no_error(fake: FakeGitLab) -> None:
    gitlab = client(fake)
    made = gitlab.add_comment(1, "one")
    fake.notes.clear()
    assert not gitlab.edit_comment(1, made.id, "two")


def test_notes_of_other_users_do_not_count(fake: FakeGitLab) -> None:
    gitlab = client(fake)
    fake.notes[gitlab.add_comment(1, "one").id]["author"]["id"] = USER
    assert gitlab.comments(1) == []


def test_no_line_of_a_note_is_an_action_of_gitlab(fake: FakeGitLab) -> None:
    client(fake).add_comment(1, "last lines:\n/merge\n/assign @me\npath/of/file")
    assert fake.bodies(1) == ["last lines:\n /merge\n /assign @me\npath/of/file"]


def test_the_job_token_reads_and_the_access_token_writes(fake: FakeGitLab) -> None:
    left(fake, "launcher plan", REF, checks())
    fake.own_token = ""
    assert [each.name for each in client(fake, own="").checks_of(HEAD)] == ["launcher effects"]
    for act in (lambda: client(fake, own="").add_comment(1, "x"), lambda: client(fake, own="").comments(1)):
        with pytest.raises(GitLabError, match="LAUNCHER_GITLAB_TOKEN is not set") as caught:
            act()
        assert caught.value.is_forbidden
        assert "role Reporter" in (caught.value.hint or "")


def test_the_access_token_reads_what_the_job_token_may_not(fake: FakeGitLab) -> None:
    left(fake, "launcher plan", REF, checks())
    fake.is_paid = False
    assert len(client(fake).checks_of(HEAD)) == 1
    with pytest.raises(GitLabError, match=r"may not get .*404 Project Not Found") as caught:
        client(fake, own="").checks_of(HEAD)
    assert caught.value.permission == "LAUNCHER_GITLAB_TOKEN"


@pytest.mark.parametrize("act", [
    lambda gitlab: gitlab.comments(1), lambda gitlab: gitlab.add_comment(1, "x"),
    lambda gitlab: gitlab.check_runs(SHA), lambda gitlab: gitlab.checks_of(HEAD),
    lambda gitlab: gitlab.pulls_of(SHA), lambda gitlab: gitlab.token(),
])  # fmt: skip
def test_a_refusal_names_the_token_and_not_its_value(fake: FakeGitLab, act: Callable[[GitLab], Any]) -> None:
    fake.faults.forbidden = ["."]
    with pytest.raises(GitLabError, match="403") as caught:
        act(client(fake))
    assert caught.value.permission == "api"
    told = f"{caught.value} {caught.value.hint}"
    assert OWN_TOKEN not in told
    assert JOB_TOKEN not in told


def test_an_artifact_that_has_expired_holds_no_checks(fake: FakeGitLab) -> None:
    left(fake, "launcher plan", REF, {})
    assert client(fake).checks_of(HEAD) == []
    assert client(fake).check_runs(SHA) == []


def test_checks_of_an_earlier_head_do_not_count(fake: FakeGitLab) -> None:
    left(fake, "launcher plan", REF, checks(sha="b" * 40))
    assert client(fake).checks_of(HEAD) == []


def test_the_newest_of_the_pipelines_of_a_merge_request_is_first(fake: FakeGitLab) -> None:
    for number, kind in ((5, "head"), (9, "train"), (7, "merge")):
        left(fake, "launcher plan", f"refs/merge-requests/3/{kind}", checks(number=number))
    assert [each.id for each in client(fake).checks_of(HEAD)] == [9, 7, 5]


@pytest.mark.parametrize(
    "forged", [{"ref": "change-3"}, {"name": "another job"}, {"tag": True}], ids=["branch", "job", "tag"]
)
def test_only_applies_of_the_default_branch_count(fake: FakeGitLab, forged: dict[str, Any]) -> None:
    for name in ("first", "second"):
        left(fake, "launcher apply", "main", checks(name), sha=SHA, environment="launcher")
    assert [each.name for each in client(fake).check_runs(SHA)] == ["second", "first"]
    fake.deployments[0]["deployable"] |= forged
    fake.deployments[1]["deployable"] = None  # made by a user
    assert client(fake).check_runs(SHA) == []


@pytest.mark.parametrize("value", [[], {"checks": 1}, {"checks": [1, {"id": "1"}, {}]}, None])
def test_an_artifact_of_another_shape_holds_no_checks(fake: FakeGitLab, value: Any) -> None:
    left(fake, "launcher plan", REF, {"launcher-ci/checks.json": json.dumps(value).encode()})
    assert client(fake).checks_of(HEAD) == []


def test_checks_are_written_when_the_step_ends(fake: FakeGitLab, tmp_path: Path) -> None:
    gitlab = client(fake, folder=str(tmp_path / "launcher-ci"), job=77)
    gitlab.add_check(Check("launcher", "success", "title", "summary", "text", "id"), sha=SHA)
    assert not (tmp_path / "launcher-ci").exists()
    gitlab.finish()
    (check,) = json.loads((tmp_path / "launcher-ci" / "checks.json").read_text())["checks"]
    assert (check["name"], check["sha"], check["id"]) == ("launcher", SHA, 77)


def test_each_step_of_a_job_adds_its_checks_to_those_of_the_steps_before(
    fake: FakeGitLab, tmp_path: Path
) -> None:
    steps = [(76, "of a job before"), (77, "(a, dev) 1/2"), (77, "(a, prod) 1/1"), (77, "(a, dev) 1/1")]
    for number, name in steps:
        gitlab = client(fake, folder=str(tmp_path), job=number)
        gitlab.add_check(Check(f"launcher effects {name}", "success", "", "", "text", name), sha=SHA)
        gitlab.finish()
    found = json.loads((tmp_path / "checks.json").read_text())["checks"]
    assert [(each["name"], each["external_id"], each["text"]) for each in found] == [
        ("launcher effects (a, prod) 1/1", "(a, prod) 1/1", "text"),
        ("launcher effects (a, dev) 1/1", "(a, dev) 1/1", "text"),
    ]


@pytest.mark.parametrize("way", ["merge_commit_sha", "squash_commit_sha", "sha"])
def test_a_commit_has_its_merge_request_however_that_was_merged(fake: FakeGitLab, way: str) -> None:
    fake.open_pull(3, "b" * 40)
    fake.merge_pull(3, SHA, way=way)
    (pull,) = client(fake).pulls_of(SHA)
    assert (pull.number, pull.merged, pull.merge_commit_sha, pull.base_ref) == (3, True, SHA, "main")
    assert client(fake).pull(3) == pull
    assert client(fake).pull(4) is None


def test_a_merge_that_is_under_way_is_waited_for(fake: FakeGitLab) -> None:
    slept: list[float] = []
    fake.open_pull(3, "b" * 40)
    fake.merge_pull(3, SHA)
    fake.faults.unlinked = {SHA: 2}
    assert [pull.merged for pull in client(fake, slept).pulls_of(SHA)] == [True]
    assert slept == [2.0, 4.0]


def test_the_redirect_of_an_artifact_is_followed_without_the_token(fake, monkeypatch):
    seen: list[str] = []

    def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path.startswith("/jobs/artifacts") and "head" in path:
            return 302, {"headers": {"Location": fake.url.replace("/api/v4", "/cdn/file")}}
        return (200, json.loads(checks()["launcher-ci/checks.json"])) if path == "/cdn/file" else (404, {})

    def unauthorized(headers: Any, method: str, path: str) -> None:
        if path == "/cdn/file":
            seen.extend(name for name in headers if "TOKEN" in name.upper())

    monkeypatch.setattr(fake, "answer", answer)
    monkeypatch.setattr(fake, "unauthorized", unauthorized)
    monkeypatch.setattr(fake, "faults_of", lambda *_: iter(()))
    assert len(client(fake).checks_of(HEAD)) == 1
    assert "GET /cdn/file" in fake.requests
    assert seen == []
