"""The environment of a runner, by GitHub's own examples of events; requests as GitHub describes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.ci.runner import CiRunner, runner_of
from launcher.errors import LauncherError
from tests.github.description import violations

EVENTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "github" / "events.json").read_text()
)["events"]
SHA = "a" * 40


def run(tmp_path: Path, event: str, payload: dict[str, Any] | str | None = None, **more: str) -> CiRunner:
    path = tmp_path / "event.json"
    given = EVENTS.get(event, {}) if payload is None else payload
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    repository = (
        given.get("repository", {}).get("full_name", "acme/vision") if isinstance(given, dict) else "a/b"
    )
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REPOSITORY": repository,
        "GITHUB_SHA": SHA,
        "GITHUB_RUN_ID": "77",
        "GITHUB_TOKEN": "s3cret",
        **more,
    }
    return runner_of(environ)


def test_a_pull_request_has_its_head_base_and_number(tmp_path: Path) -> None:
    found = run(tmp_path, "pull_request")
    assert (found.pull_request, found.base_ref, found.is_fork) == (2, "master", False)
    assert found.head_sha == "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
    assert found.base_sha == "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
    assert found.sha == SHA


def test_a_pull_request_of_another_or_a_deleted_repository_counts_as_from_a_fork(tmp_path: Path) -> None:
    assert run(tmp_path, "pull_request", GITHUB_REPOSITORY="acme/other").is_fork
    payload = json.loads(json.dumps(EVENTS["pull_request"]))
    payload["pull_request"]["head"]["repo"] = None
    assert run(tmp_path, "pull_request", payload).is_fork


def test_a_merge_group_keeps_its_effects_on_its_own_commit(tmp_path: Path) -> None:
    found = run(tmp_path, "merge_group")
    assert found.head_sha == "2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d"
    assert (found.base_ref, found.pull_request, found.is_public) == ("main", None, False)


@pytest.mark.parametrize("event", ["push", "workflow_dispatch", "schedule"])
def test_runs_of_other_events_have_their_commit_and_no_pull_request(tmp_path: Path, event: str) -> None:
    found = run(tmp_path, event)
    assert (found.head_sha, found.pull_request, found.is_fork) == (SHA, None, False)
    assert found.run_url.endswith("/actions/runs/77")


def test_no_repr_shows_the_token(tmp_path: Path) -> None:
    found = run(tmp_path, "push")
    assert found.token == "s3cret"
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(("more", "payload"), [
    ({"GITHUB_SHA": "--upload-pack=x"}, None), ({"GITHUB_REPOSITORY": "../../x"}, None), ({}, "{"),
    ({}, "[" * 100_000), ({}, {"pull_request": {"head": {"sha": "$(x)"}, "base": {}}}),
    ({}, {"pull_request": 7}),
])  # fmt: skip
def test_a_wrong_environment_is_a_launcher_error(tmp_path, more, payload):
    with pytest.raises(LauncherError):
        run(tmp_path, "pull_request", payload, **more)


def test_an_environment_outside_of_a_runner_is_refused() -> None:
    with pytest.raises(LauncherError, match="neither GITHUB_ACTIONS nor GITLAB_CI is set"):
        runner_of({})


@pytest.mark.parametrize("name", ["GITEA_ACTIONS", "FORGEJO_ACTIONS"])
def test_a_runner_of_another_server_with_the_variables_of_github_is_refused(name: str) -> None:
    with pytest.raises(
        LauncherError, match=f"no run of GitHub Actions or GitLab CI: {name} is set"
    ) as caught:
        runner_of({"GITHUB_ACTIONS": "true", name: "true", "GITHUB_EVENT_NAME": "push"})
    assert "launcher apply --approved" in caught.value.hint


def test_requests_that_github_does_not_describe_are_noticed() -> None:
    path = "/repos/acme/vision/check-runs"
    body = {"name": "a", "head_sha": SHA, "status": "completed", "conclusion": "success"}
    assert list(violations("POST", path, {}, body)) == []
    assert list(violations("POST", path, {}, {**body, "conclusion": "good"}))
    assert list(violations("POST", path, {}, {**body, "sumary": "x"}))
    assert list(violations("POST", path, {}, {}))
    assert list(violations("GET", "/repos/acme/vision/pulls/1/nothing", {}, None))
    assert list(violations("GET", f"/repos/acme/vision/commits/{SHA}/check-runs", {"filter": "newest"}, None))


def job(source: str, **more: str) -> CiRunner:
    environ = {
        "GITLAB_CI": "true",
        "CI_PIPELINE_SOURCE": source,
        "CI_COMMIT_SHA": SHA,
        "CI_PROJECT_ID": "42",
        "CI_PROJECT_DIR": "/builds/acme/vision",
        "CI_JOB_ID": "77",
        "CI_JOB_TOKEN": "s3cret",
        "LAUNCHER_GITLAB_TOKEN": "s3cret too",
        **more,
    }
    return runner_of(environ)


def merge_request(**more: str) -> CiRunner:
    return job(
        "merge_request_event",
        **{
            "CI_MERGE_REQUEST_IID": "3",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "b" * 40,
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "42",
            **more,
        },
    )


def test_a_merge_request_has_its_head_base_and_number() -> None:
    found = merge_request()
    assert (found.provider, found.event, found.pull_request) == ("gitlab", "pull_request", 3)
    assert (found.head_sha, found.base_sha, found.base_ref, found.is_fork) == (SHA, "b" * 40, "main", False)
    assert (found.repository, found.job_id) == ("42", 77)
    assert found.artifacts == "/builds/acme/vision/launcher-ci"
    assert "s3cret" not in repr(found)


def test_a_pipeline_of_the_merged_result_names_the_heads_of_both_branches() -> None:
    more = {"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "c" * 40, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "d" * 40}
    found = merge_request(**more)
    assert (found.sha, found.head_sha, found.base_sha) == (SHA, "c" * 40, "d" * 40)


@pytest.mark.parametrize("project", ["43", ""])
def test_a_merge_request_of_another_project_counts_as_from_a_fork(project: str) -> None:
    assert merge_request(CI_MERGE_REQUEST_SOURCE_PROJECT_ID=project).is_fork


def test_a_manual_pipeline_has_its_digest() -> None:
    found = job("web", LAUNCHER_DIGEST="lp3:sha256:00", CI_DISPOSABLE_ENVIRONMENT="true")
    assert (found.event, found.inputs, found.is_hosted) == (
        "workflow_dispatch",
        {"digest": "lp3:sha256:00"},
        True,
    )
    assert (job("push").inputs, job("push").is_hosted) == ({}, False)


@pytest.mark.parametrize(("visibility", "is_public"), [("private", False), ("internal", True), ("", True)])
def test_the_visibility_of_a_project_decides_whether_it_is_public(visibility: str, is_public: bool) -> None:
    assert job("schedule", CI_PROJECT_VISIBILITY=visibility).is_public is is_public


@pytest.mark.parametrize("name", ["CI_COMMIT_SHA", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID"])
def test_a_wrong_variable_of_gitlab_is_named(name: str) -> None:
    with pytest.raises(LauncherError, match=f"{name} is '../x'"):
        merge_request(**{name: "../x"})
