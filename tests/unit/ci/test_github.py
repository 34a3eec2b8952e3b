"""The client of GitHub against a server that keeps state, and fails in the ways of the real server."""

import ssl
from collections.abc import Iterator

import pytest

from launcher.ci.forge import Check
from launcher.ci.github import GitHub, GitHubError, github_of
from launcher.errors import LauncherError
from tests.github.fake import REPOSITORY, FakeGitHub
from tests.unit.docker.fake_engine import NEEDS_OPENSSL, certificates

SHA = "a" * 40


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        yield server


def client(fake: FakeGitHub, slept: list[float] | None = None) -> GitHub:
    return GitHub(fake.url, REPOSITORY, "s3cret", sleep=(slept if slept is not None else []).append)


def check(name: str = "launcher") -> Check:
    return Check(name, "success", "title", "summary", "text", "id")


def test_comments_are_written_edited_and_listed(fake: FakeGitHub) -> None:
    github = client(fake)
    made = github.add_comment(1, "one")
    assert github.edit_comment(1, made.id, "two")
    assert [each.body for each in github.comments(1)] == ["two"]
    assert github.comments(2) == []


def test_a_comment_that_was_deleted_is_no_error(fake: FakeGitHub) -> None:
    github = client(fake)
    made = github.add_comment(1, "one")
    fake.comments.clear()
    assert not github.edit_comment(1, made.id, "two")


@pytest.mark.slow
def test_every_page_is_read(fake: FakeGitHub) -> None:
    fake.faults.page = 3
    github = client(fake)
    for number in range(8):
        github.add_comment(1, str(number))
        github.add_check(check(str(number)), sha=SHA)
    assert [each.body for each in github.comments(1)] == [str(number) for number in range(8)]
    assert [each.name for each in github.check_runs(SHA)] == [str(number) for number in reversed(range(8))]


def test_check_runs_of_other_apps_do_not_count(fake: FakeGitHub) -> None:
    github = client(fake)
    github.add_check(check(), sha=SHA)
    fake.checks[0]["app"] = {"slug": "somebody-elses-app"}
    assert github.check_runs(SHA) == []


def test_a_refusal_names_the_permission_and_not_the_token(fake: FakeGitHub) -> None:
    fake.faults.forbidden = ["."]
    github = client(fake)
    needs = [
        (lambda: github.add_check(check(), sha=SHA), "checks: write"),
        (lambda: github.check_runs(SHA), "checks: read"),
        (lambda: github.add_comment(1, "x"), "pull-requests: write"),
        (lambda: github.comments(1), "pull-requests: read"),
        (lambda: github.pulls_of(SHA), "pull-requests: read"),
    ]
    for act, permission in needs:
        with pytest.raises(GitHubError) as caught:
            act()
        assert caught.value.permission == permission
        assert "s3cret" not in f"{caught.value} {caught.value.hint}"


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers, fake.faults.retry_after = {"POST /check-runs": [429, 403]}, 7
    client(fake, slept).add_check(check(), sha=SHA)
    assert slept == [7.0, 7.0]
    assert len(fake.checks) == 1


def test_a_rate_limit_with_a_long_wait_is_an_error_at_once(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers, fake.faults.retry_after = {"GET": [429]}, 4000
    with pytest.raises(GitHubError, match="429"):
        client(fake, slept).comments(1)
    assert slept == []


def test_reads_are_repeated_after_a_failure_of_the_server_and_writes_are_not(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers = {"GET": [502, 503], "POST": [502]}
    github = client(fake, slept)
    assert github.comments(1) == []
    assert slept == [1.0, 2.0]
    with pytest.raises(GitHubError, match="502"):
        github.add_comment(1, "one")
    assert fake.bodies(1) == []


def test_a_check_run_is_written_again_since_the_newest_counts(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers = {"POST": [502, 503]}
    client(fake, slept).add_check(check(), sha=SHA)
    assert slept == [1.0, 2.0]
    assert len(fake.checks) == 1


def test_a_server_that_asks_for_no_pause_is_not_flooded(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers, fake.faults.retry_after = {"GET": [429, 503, 503]}, 0
    assert client(fake, slept).comments(1) == []
    assert slept == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("token", ["s3cret\n", "s3cr\u00e9t", "s3cr\u4e2dt"])
def test_a_token_that_no_header_can_hold_is_refused_without_its_text(fake: FakeGitHub, token: str) -> None:
    with pytest.raises(GitHubError, match="the token has a character that no token has") as caught:
        GitHub(fake.url, REPOSITORY, token).comments(1)
    assert "s3cr" not in f"{caught.value} {caught.value.hint}"
    assert fake.requests == []


def test_a_commit_that_is_not_linked_yet_has_no_pull_request(fake: FakeGitHub) -> None:
    fake.open_pull(3, "b" * 40)
    fake.merge_pull(3, SHA)
    fake.faults.unlinked = {SHA: 1}
    github = client(fake)
    assert github.pulls_of(SHA) == []
    pulls = [(pull.number, pull.merged, pull.merge_commit_sha) for pull in github.pulls_of(SHA)]
    assert pulls == [(3, True, SHA)]
    assert github.pull(4) is None


def test_a_comment_beyond_the_limit_of_the_server_is_refused(fake: FakeGitHub) -> None:
    with pytest.raises(GitHubError, match="422"):
        client(fake).add_comment(1, "x" * 70_000)


def test_a_server_that_does_not_answer_is_named() -> None:
    github = GitHub("http://127.0.0.1:9", REPOSITORY, "s3cret", sleep=lambda _: None)
    with pytest.raises(GitHubError, match=r"127\.0\.0\.1:9 does not answer"):
        github.add_comment(1, "x")


def test_a_write_that_may_have_been_done_is_not_repeated_whatever_the_server_says(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers, fake.faults.retry_after = {"POST": [503]}, 1
    with pytest.raises(GitHubError, match="503"):
        client(fake, slept).add_comment(1, "one")
    assert slept == []


@pytest.mark.slow
def test_a_secondary_rate_limit_without_headers_is_waited_for(fake: FakeGitHub) -> None:
    slept: list[float] = []
    fake.faults.answers = {"POST": [403]}
    fake.faults.message = "You have exceeded a secondary rate limit."
    client(fake, slept).add_comment(1, "one")
    assert slept == [1.0]
    assert fake.bodies(1) == ["one"]


def test_comments_of_users_do_not_count(fake: FakeGitHub) -> None:
    github = client(fake)
    made = github.add_comment(1, "one")
    fake.comments[made.id]["user"] = {"login": "mallory"}
    assert github.comments(1) == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["<html>a proxy</html>", ""])
def test_an_answer_that_is_no_json_is_named(fake: FakeGitHub, text: str) -> None:
    fake.faults.text = text
    with pytest.raises(GitHubError, match="no JSON"):
        client(fake).comments(1)


@pytest.mark.parametrize("text", ["null", "{}", "[1]", "[{}]", '"text"', '[{"id": 1, "user": 3}]'])
def test_an_answer_of_another_shape_is_named(fake: FakeGitHub, text: str) -> None:
    """Comments that seem to be missing would be written again."""
    fake.faults.text = text
    github = client(fake)
    for act in (
        lambda: github.comments(1),
        lambda: github.add_comment(1, "x"),
        lambda: github.check_runs(SHA),
    ):
        with pytest.raises(GitHubError, match="JSON of another shape"):
            act()


def test_a_token_of_another_app_or_user_is_named_since_what_it_writes_is_not_found(fake: FakeGitHub) -> None:
    github = client(fake)
    fake.app = "my-app"
    with pytest.raises(GitHubError, match="the token is that of `my-app`, whose check runs do not count"):
        github.add_check(check(), sha=SHA)
    with pytest.raises(GitHubError, match=r"of `my-app\[bot\]`, whose comments do not count"):
        github.add_comment(1, "x")


def test_a_missing_token_and_an_expired_one_are_named(fake: FakeGitHub) -> None:
    fake.faults.answers = {"GET": [404, 401]}
    with pytest.raises(GitHubError, match="GITHUB_TOKEN is not set") as caught:
        GitHub(fake.url, REPOSITORY, "").check_runs(SHA)
    assert caught.value.is_forbidden
    with pytest.raises(GitHubError, match="GitHub does not accept the token"):
        client(fake).check_runs(SHA)


@NEEDS_OPENSSL
def test_an_unknown_certificate_is_an_error_at_once(tmp_path) -> None:
    folder = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    slept: list[float] = []
    with FakeGitHub(context) as fake, pytest.raises(GitHubError, match="certificate verify failed") as caught:
        GitHub(fake.url.replace("http:", "https:"), REPOSITORY, "s3cret", sleep=slept.append).comments(1)
    assert "SSL_CERT_FILE" in (caught.value.hint or "")
    assert slept == []


@pytest.mark.parametrize("origin", ["ghe.example.org/acme/vision", "/srv/jobs.git", ""])
def test_the_token_of_another_server_is_not_sent_to_github(
    fake: FakeGitHub, origin: str, monkeypatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "s3cret")
    monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
    monkeypatch.delenv("GITHUB_API_URL", raising=False)
    with pytest.raises(LauncherError, match="cannot find the repository") as caught:
        github_of(origin)
    assert "set GITHUB_API_URL" in (caught.value.hint or "")
    monkeypatch.setenv("GITHUB_API_URL", fake.url)
    assert github_of(origin).check_runs(SHA) == []


def test_a_repository_that_was_moved_is_named(fake: FakeGitHub) -> None:
    fake.faults.answers = {"GET": [301]}
    with pytest.raises(GitHubError) as caught:
        client(fake).comments(1)
    assert "renamed or moved" in (caught.value.hint or "")


def test_the_name_of_a_repository_is_not_taken_for_a_permission(fake: FakeGitHub) -> None:
    fake.faults.forbidden = ["."]
    github = GitHub(fake.url, "acme/pulls", "s3cret", sleep=lambda _: None)
    with pytest.raises(GitHubError) as caught:
        github.check_runs(SHA)
    assert caught.value.permission == "checks: read"
