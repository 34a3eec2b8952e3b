"""The pages of a run and of its pull request, by the variables of a runner."""

import pytest

from launcher.ci_environment import pull_request, run_url


@pytest.mark.parametrize(("environ", "name", "page"), [
    (
        {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_REPOSITORY": "acme/vision", "GITHUB_RUN_ID": "77"},
        "#12",
        "https://github.example/acme/vision/pull/12",
    ),
    ({"GITLAB_CI": "true", "CI_JOB_URL": "https://gitlab.example/acme/sub/vision/-/jobs/77"}, "!12",
        "https://gitlab.example/acme/sub/vision/-/merge_requests/12"),
    ({}, "#12", ""),
], ids=["github", "gitlab", "neither"])  # fmt: skip
def test_a_pull_request_has_the_name_and_the_page_of_its_server(environ, name, page):
    assert pull_request("12", run_url(environ)) == (name, page)
