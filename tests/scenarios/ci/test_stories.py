"""From the pull request to the app: `ci plan` and `ci apply` on a bare remote, with local jobs."""

import json
from pathlib import Path

import pytest

from launcher.specs import JobKey
from launcher.state.store import Store
from tests.github.fake import FakeGitHub
from tests.github.repository import Repository, git
from tests.scenario import Gate, Scenario

CHECK = "launcher apply (default, default)"
BY_HAND = "--without-review"


def job(name: str, *args: str, more: str = "", role: str = "") -> str:
    words = ", ".join(args or ("done",))
    return f"version: 1\nname: {name}\n{more}roles: {{main: {{entrypoint: echo, args: [{words}]{role}}}}}\n"


def until_opened(name: str, gate: Gate) -> str:
    """Return a job that runs until its gate is opened."""
    return f"version: 1\nname: {name}\nroles: {{main: {{entrypoint: sh, args: [-c, '{gate.script}']}}}}\n"


PRUNES = {"launcher.toml": "[ci]\nprune = true\n"}


@pytest.fixture
def repo(tmp_path: Path, github: FakeGitHub, scenario: Scenario) -> Repository:
    """A repository whose first commit was applied by hand."""
    made = Repository(tmp_path, github, scenario.home)
    made.push({"base.launcher.yaml": job("base")})
    made.apply(BY_HAND, event="workflow_dispatch")
    return made


def ran(scenario: Scenario) -> dict[str, list[str]]:
    """Return by job the pull requests of its attempts, in their order."""
    with Store.open(readonly=True) as store:
        keys = sorted({JobKey(*app.key) for app in store.apps("local_cwd")})
    made = {key.job: scenario.attempts(key.job, project=key.project) for key in keys}
    return {name: [each.pull_request for each in found] for name, found in made.items()}


def test_a_merged_pull_request_is_applied_and_its_comment_reports_the_result(repo, github, scenario):
    repo.propose(1, {"train.launcher.yaml": job("train", "$<git.sha>")})
    (comment,) = github.bodies(1)
    assert "### Starts 1 job" in comment
    commit = repo.merge(1)
    repo.apply()
    assert ran(scenario) == {"base": [""], "train": ["1"]}
    assert github.conclusions(CHECK)[commit] == "success"
    (comment,) = github.bodies(1)
    assert f"applied at {commit[:7]}: started train" in comment
    repo.apply()
    assert ran(scenario)["train"] == ["1"]
    repo.plan(1)  # once more, for the merged pull request
    (comment,) = github.bodies(1)
    assert f"applied at {commit[:7]}: started train" in comment


def test_the_comment_of_a_commit_that_cannot_be_planned_shows_no_older_plan(repo, github):
    repo.propose(1, {"train.launcher.yaml": job("train")})
    head = repo.pull_request(1, {"train.launcher.yaml": "version: 1\nname: train\n"})
    repo.plan(1, code=6)
    (comment,) = github.bodies(1)
    assert comment.splitlines()[1:] == [
        f"### No plan of default at {head[:7]}",
        "",
        "[The run](https://github.invalid/acme/vision/actions/runs/3) says why.",
    ]
    repo.propose(1, {"train.launcher.yaml": job("train")})
    (comment,) = github.bodies(1)
    assert "### Starts 1 job" in comment
    repo.pull_request(2, {"two.launcher.yaml": "version: 1\nname: two\n"})
    repo.plan(2, code=6)
    assert not github.bodies(2)


@pytest.mark.slow
def test_two_pull_requests_merged_at_once_by_merge_commits_are_both_applied_once(repo, github, scenario):
    for number, name in ((1, "one"), (2, "two")):
        repo.propose(number, {f"{name}.launcher.yaml": job(name)})
    repo.merge(1, squash=False)
    repo.merge(2, squash=False)
    for _ in range(2):  # the run of the second merge, too
        repo.apply()
    assert ran(scenario) == {"base": [""], "one": ["1"], "two": ["2"]}
    assert all("started" in github.bodies(number)[0] for number in (1, 2))


@pytest.mark.slow
def test_a_job_that_changed_after_the_review_is_held_and_named(repo, github, scenario):
    repo.propose(1, {"train.launcher.yaml": job("train", "reviewed")})
    repo.pull_request(1, {"train.launcher.yaml": job("train", "other"), "ok.launcher.yaml": job("ok")})
    commit = repo.merge(1)
    shown = repo.apply(code=4)
    assert "start default/train: no approval starts it" in shown
    assert "left no plan on the last commit of #1" in shown
    assert "--rerun" not in shown
    assert ran(scenario) == {"base": [""]}
    assert github.conclusions(CHECK).get(commit) != "success"
    repo.plan(1)  # it ends after all
    repo.apply()
    assert ran(scenario) == {"base": [""], "ok": ["1"], "train": ["1"]}


@pytest.mark.slow
def test_a_direct_push_adds_no_approval_and_blocks_nothing(repo, github, scenario):
    repo.push({"old.launcher.yaml": job("old")})
    repo.propose(1, {"one.launcher.yaml": job("one")})
    (comment,) = github.bodies(1)
    rows = {line.split("|")[2].strip(): line for line in comment.splitlines() if line.startswith("| `+`")}
    assert "from this pull request" in rows["one"]
    assert "already pending on main" in rows["old"]
    repo.plan(1, opened_on=git(repo.work, "rev-parse", "main~1"))
    assert github.bodies(1) == [comment]
    repo.push({"pushed.launcher.yaml": job("pushed")})
    repo.merge(1)
    shown = repo.apply(code=4)
    assert "start default/pushed: no approval starts it" in shown
    assert ran(scenario) == {"base": [""], "old": ["1"], "one": ["1"]}
    repo.land(2, {"README": "2"})
    assert ran(scenario)["pushed"] == ["2"]


def test_a_runner_that_is_discarded_starts_no_process_of_its_own(repo, github, scenario, monkeypatch):
    monkeypatch.setenv("RUNNER_ENVIRONMENT", "github-hosted")
    repo.propose(1, {"train.launcher.yaml": job("train")})
    repo.merge(1)
    assert "train: its processes would end with this run" in repo.apply(code=4)
    assert ran(scenario) == {"base": [""]}
    assert "held train (its processes would end" in github.bodies(1)[0]


@pytest.mark.slow
def test_a_token_that_may_not_write_degrades_with_the_name_of_the_permission(repo, github):
    github.faults.forbidden = ["POST /check-runs", "POST /issues"]
    shown = repo.propose(1, {"train.launcher.yaml": job("train")})
    assert "`checks: write`" in shown
    assert "`pull-requests: write`" in shown


@pytest.mark.slow
def test_a_plan_is_shown_in_one_comment_that_is_edited(repo: Repository, github: FakeGitHub) -> None:
    repo.propose(1, {"train.launcher.yaml": job("train", "1")})
    old = git(repo.work, "rev-parse", "change-1")
    repo.propose(1, {"train.launcher.yaml": job("train", "2"), "more.launcher.yaml": job("more")})
    (comment,) = github.bodies(1)
    assert "### Starts 2 jobs" in comment
    (first,) = github.comments.values()
    github.comments[first["id"] + 1000] = {**first, "id": first["id"] + 1000}  # of two runs at once
    repo.plan(1, at=old)  # a run that is repeated
    assert github.bodies(1) == [comment] * 2
    repo.propose(1, {"more.launcher.yaml": None})
    assert all("### Starts 1 job" in body for body in github.bodies(1))
    github.comments.clear()
    repo.plan(1)
    assert len(github.bodies(1)) == 1


@pytest.mark.slow
def test_the_plan_of_a_change_for_another_branch_says_that_its_merge_starts_nothing(repo, github):
    git(repo.work, "push", "-q", "origin", "main:stack")
    repo.pull_request(1, {"train.launcher.yaml": job("train")})
    repo.plan(1, into="stack")
    shown = "Jobs are applied from main: a merge into stack alone starts and stops nothing."
    assert shown in github.bodies(1)[0]


@pytest.mark.slow
def test_a_job_whose_need_has_failed_since_its_plan_is_held_and_named(repo, github, scenario):
    gate = scenario.gate()
    script = json.dumps(f"{gate.script}; exit 1")
    repo.land(1, {"first.launcher.yaml": f"version: 1\nname: first\nroles: {{main: {{run: {script}}}}}\n"})
    gate.entered()
    repo.propose(2, {"then.launcher.yaml": job("then", more="needs: [first]\n")})
    gate.open()
    scenario.wait("first", code=5)
    commit = repo.merge(2)
    repo.apply()
    told = f"applied at {commit[:7]}: held then (needs_failed (first: failed)"
    assert told in github.bodies(2)[0].replace("\\", "")


@pytest.mark.slow
def test_a_comment_is_taken_back_when_the_pull_request_leaves_its_project_out_again(repo, github):
    added = {"b/launcher.toml": 'project = "beta"\n', "b/one.launcher.yaml": job("one")}
    more = job("two", more="targets: {prod: {description: other}}\n")
    repo.propose(1, {**added, "two.launcher.yaml": more})
    repo.plan(1, "--target", "prod")
    repo.propose(1, dict.fromkeys(added))
    beta, *others = sorted(github.bodies(1))
    assert beta == "<!-- launcher plan: beta -->\n### No job of beta is left\n"
    headings = [body.splitlines()[1] for body in others]
    assert headings == ["### Starts 1 job", "### default.prod · Starts 1 job"]


@pytest.mark.slow
def test_a_job_that_a_pull_request_removes_is_stopped_where_the_project_prunes(repo, github, scenario):
    gate = scenario.gate()
    repo.land(1, {"serve.launcher.yaml": until_opened("serve", gate), **PRUNES})
    gate.entered()
    repo.propose(2, {"serve.launcher.yaml": None})
    assert "### Stops 1 app" in github.bodies(2)[0]
    repo.merge(2)
    repo.apply()
    (made,) = scenario.attempts("serve")
    assert made.state == "cancelled"
    assert scenario.processes_of(made.app_id) == []


@pytest.mark.slow
def test_a_running_job_that_a_pull_request_removes_is_held_where_no_plan_stopped_it(repo, scenario):
    gate = scenario.gate()
    repo.land(1, {"serve.launcher.yaml": until_opened("serve", gate), **PRUNES})
    gate.entered()
    repo.push({"serve.launcher.yaml": None})
    assert "no approval stops attempt 1" in repo.apply(code=4)
    (made,) = scenario.attempts("serve")
    assert made.state == "running"
    gate.open()


@pytest.mark.slow
def test_two_merges_that_change_one_running_job_are_both_applied(repo, github, scenario):
    def serve(seconds: int) -> dict[str, str | None]:
        text = f"version: 1\nname: serve\nroles: {{main: {{entrypoint: sleep, args: ['{seconds}']}}}}\n"
        return {"serve.launcher.yaml": text}

    repo.push(serve(1000))
    repo.apply(BY_HAND, event="workflow_dispatch")
    repo.propose(1, serve(2000))
    first = repo.merge(1)
    repo.propose(2, serve(3000))
    repo.apply(at=first)
    repo.merge(2)
    repo.apply()
    assert "started serve in place of serve@2\n" in github.bodies(2)[0]
    made = scenario.attempts("serve")
    assert [(each.pull_request, each.state) for each in made] == [
        ("", "cancelled"),
        ("1", "cancelled"),
        ("2", "running"),
    ]
    scenario.cancel("serve")


COMPONENT = """\
from launcher.specs import AppDef, Role


def made() -> AppDef:
    return AppDef("made", [Role("main", image="", entrypoint="echo", args=["made"])])
"""


@pytest.mark.slow
def test_a_plan_calls_components_of_the_repository_only_where_the_base_allows_it(repo: Repository) -> None:
    files: dict[str, str | None] = {
        "parts.py": COMPONENT,
        "made.launcher.yaml": "version: 1\nname: made\ncomponent: parts.py:made\n",
        "launcher.toml": "[ci]\ncomponents = true\n",
    }
    repo.pull_request(1, files)
    assert "component `parts.py:made` is not called" in repo.plan(1, code=6)
    repo.push({"launcher.toml": "[ci]\ncomponents = true\n"})
    repo.propose(2, {name: text for name, text in files.items() if name != "launcher.toml"})


@pytest.mark.slow
def test_a_report_is_written_once_when_all_jobs_have_ended(repo, github, scenario):
    gate = scenario.gate()
    script = """echo {\\"loss\\": 0.5} >$LAUNCHER_OUTPUT_DIR/metrics.json"""
    train = f"version: 1\nname: train\nroles: {{main: {{entrypoint: sh, args: [-c, '{script}']}}}}\n"
    repo.propose(1, {"waits.launcher.yaml": until_opened("waits", gate), "train.launcher.yaml": train})
    commit = repo.merge(1)
    repo.apply()
    gate.entered()
    scenario.wait("train")
    repo.report()
    assert len(github.bodies(1)) == 1
    gate.open()
    scenario.wait("waits")
    for _ in range(3):
        repo.report()
    _, told = github.bodies(1)
    assert "### 2 succeeded" in told
    assert f"Jobs of the merge `{commit[:7]}`" in told
    assert "| train@1 | succeeded |" in told.replace("\\", "")
    assert "| loss | - | 0.5 |  |" in told


@pytest.mark.slow
def test_the_first_failure_is_reported_at_once(repo, github, scenario):
    gate = scenario.gate()
    fails = (
        "version: 1\nname: fails\nroles: {main: {entrypoint: sh, args: [-c, 'echo s3cret >&2; exit 3']}}\n"
    )
    repo.land(1, {"waits.launcher.yaml": until_opened("waits", gate), "fails.launcher.yaml": fails})
    gate.entered()
    scenario.wait("fails", code=None)
    repo.report()
    _, told = github.bodies(1)
    assert "### 1 failed and 1 running" in told
    repo.propose(2, {"other.launcher.yaml": job("other")})
    for each in (told, *github.bodies(2)):
        assert "exited with 3" in each.replace("\\", "")
        assert "s3cret" not in each
    gate.open()
    scenario.wait("waits")
    repo.report()
    assert len(github.bodies(1)) == 2


@pytest.mark.slow
def test_a_report_shows_the_last_lines_of_a_failed_job_to_a_private_repository(
    repo: Repository, github: FakeGitHub, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines have no values of secrets, which GitHub masks in logs and not in comments."""
    monkeypatch.setenv("HF_TOKEN", "hf-1234\n567890")
    script = 'seq 100; echo "  no data for $HF_TOKEN, $DB_PASSWORD" >&2; exit '
    variables = "{HF_TOKEN: {secret: 'env:HF_TOKEN'}, DB_PASSWORD: correct-horse}"
    for number, private in ((1, False), (2, True)):
        fails = (
            "version: 1\nname: fails\nroles:\n  main:\n    entrypoint: sh\n"
            f"    args: [-c, {json.dumps(script + str(number))}]\n    env: {variables}\n"
        )
        repo.land(number, {"fails.launcher.yaml": fails})
        scenario.wait("fails", code=None)
        repo.report(private=private)
    public, private = github.bodies(1)[1], github.bodies(2)[1]
    assert "no data" not in public
    assert "\n100\n  no data for ***, ***\n```" in private
    assert "\n80\n" not in private


@pytest.mark.slow
def test_a_report_shows_no_output_of_a_job_whose_secret_is_missing(repo, github, scenario, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf-1234567890")
    fails = (
        "version: 1\nname: fails\nroles:\n  main:\n    run: echo $HF_TOKEN; echo no data; exit 3\n"
        "    env: {HF_TOKEN: {secret: 'env:HF_TOKEN'}}\n"
    )
    repo.land(1, {"fails.launcher.yaml": fails})
    scenario.wait("fails", code=None)
    monkeypatch.delenv("HF_TOKEN")
    repo.report(private=True)
    assert "exited with 3" in github.bodies(1)[1]
    assert "no data" not in github.bodies(1)[1]


@pytest.mark.slow
def test_a_pull_request_that_touches_no_job_passes_and_is_reported_without_a_comment(repo, github):
    repo.propose(1, {"README": "other"})
    assert [each["name"] for each in github.checks if each["name"].startswith("launcher effects")] == [
        "launcher effects (default, default) 1/1"
    ]
    repo.merge(1)
    repo.apply()
    repo.report()
    repo.report()
    assert github.bodies(1) == []
    assert len([each for each in github.checks if each["name"].startswith("launcher report")]) == 2


@pytest.mark.slow
def test_a_plan_over_budget_fails_on_the_pull_request_and_is_not_applied(repo, github, scenario):
    core = ", resource: {cpu: 1}"
    budget = {"launcher.toml": "[budget]\ncore_hours = 0\n"}
    for number in (1, 2):
        repo.land(number, {"train.launcher.yaml": job("train", f"v{number}", role=core)})
        scenario.wait("train")
    repo.pull_request(3, {**budget, "train.launcher.yaml": job("train", "v3", role=core)})
    assert "::error title=launcher::over budget: default: about" in repo.plan(3, code=3)
    assert "> **Blocked**" in github.bodies(3)[0]
    repo.merge(3)
    assert "the plan exceeds its budget" in repo.apply(code=3)
    assert ran(scenario)["train"] == ["1", "2"]


@pytest.mark.slow
def test_a_plan_that_leaves_out_a_job_of_the_newest_plan_of_its_commit_is_refused(repo, github):
    one, two = "one.launcher.yaml", "two.launcher.yaml"
    repo.pull_request(1, {one: job("one"), two: job("two")})
    repo.plan(1, one)
    (comment,) = github.bodies(1)
    refused = repo.plan(1, two, code=1)
    assert "plan of this commit starts one, and this one leaves out one.launcher.yaml" in refused
    assert github.bodies(1) == [comment]
    repo.plan(1, one, two)
    repo.pull_request(1, {two: None})
    repo.plan(1, one)


@pytest.mark.slow
def test_only_a_plan_asks_schedulers_about_requests(repo: Repository) -> None:
    repo.pull_request(1, {"train.launcher.yaml": job("train")})
    assert "train  create" in repo.plan(1, "--check")
    assert "--check is for `launcher ci plan`" in repo.apply("--check", code=64)
