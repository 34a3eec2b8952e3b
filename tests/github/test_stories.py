"""Pull requests from their plan to their report, by the file that `init --ci` writes for GitHub or GitLab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from launcher.cli import init_ci
from launcher.cli.init_ci import ENGINES, Setup, workflow
from tests.github.fake import FakeGitHub
from tests.github.hub import Hub, digest_in
from tests.github.workflow import FILE
from tests.gitlab import hub as gitlab
from tests.gitlab.fake import FakeGitLab
from tests.lanes import sampled

REQUIREMENT = "launcher-jobs==0.1.0"
APPLIED = "launcher apply (vision, default)"


def job(name: str, run: str = "true", more: str = "") -> dict[str, str | None]:
    return {f"{name}.launcher.yaml": f"version: 1\nname: {name}\n{more}roles:\n  main:\n    run: {run}\n"}


def service(name: str, gate) -> dict[str, str | None]:
    """Return a job that runs until its gate is opened."""
    entry = f"    entrypoint: sh\n    args: [-c, '{gate.script}']\n"
    return {f"{name}.launcher.yaml": f"version: 1\nname: {name}\nroles:\n  main:\n{entry}"}


def attempts(scenario, name: str) -> list[str]:
    """Return the pull requests that the attempts of a job come from, the oldest first."""
    return [attempt.pull_request for attempt in scenario.attempts(name, project="vision")]


@pytest.fixture
def engine() -> str:
    """The engine that the workflow is written for. All jobs of these stories are local."""
    return "local"


BOTH = pytest.mark.parametrize("provider", ["github", "gitlab"])
"""For stories that are the same on both servers."""


@pytest.fixture
def provider() -> str:
    return "github"


@pytest.fixture
def new(tmp_path, scenario, engine, provider, monkeypatch) -> Iterator[Hub]:
    """A repository with the workflow and one job, in which no commit was applied yet."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    scenario.write("launcher.toml", 'project = "vision"\n')
    host = "me@gpu1" if ENGINES[engine].variable else ""
    setup = Setup(ENGINES[engine], host, ("HF_TOKEN",), "main", REQUIREMENT)
    kind, files = Hub, {FILE: workflow(setup)}
    if provider == "gitlab":
        kind = gitlab.Hub
        files = init_ci.pipeline_files(setup)
    with FakeGitLab() if provider == "gitlab" else FakeGitHub() as server:
        hub = kind(tmp_path, server)
        hub.runner.installed(REQUIREMENT)
        hub.push({**files, "launcher.toml": 'project = "vision"\n[ci]\nprune = true\n', **job("first")})
        yield hub


@pytest.fixture
def hub(new: Hub) -> Hub:
    """A repository whose first commit was applied by hand."""
    new.dispatched(digest_in(new.pushed(code=4).output))
    return new


@pytest.mark.slow
@BOTH
def test_a_manual_run_without_a_digest_names_the_missing_setup_and_starts_nothing(new, scenario):
    told = new.dispatched("")
    assert told.name == "launcher doctor"
    assert "ok       concurrency" in told.output
    assert "missing  " not in told.output
    assert scenario.attempts("first", project="vision") == []


@BOTH
@pytest.mark.parametrize("engine", sampled(ENGINES, "local", every=2))
def test_a_merged_pull_request_starts_its_job_and_reports_the_start(hub, scenario):
    planned = hub.propose(1, job("train", "echo trained"))
    assert planned.name == "launcher plan"  # the check that protects main
    assert "Starts 1 job" in planned.summary
    (comment,) = hub.github.bodies(1)
    assert "train" in comment
    assert scenario.attempts("train", project="vision") == []
    hub.land(1)
    scenario.wait("train")
    assert attempts(scenario, "train") == ["1"]
    assert "started train" in hub.github.bodies(1)[0]
    assert hub.github.conclusions(APPLIED)[hub.commit()] == "success"


@pytest.mark.slow
@BOTH
def test_one_comment_reports_the_ends_of_the_jobs_that_a_merge_started(hub, scenario):
    hub.propose(1, job("train", "echo no such data >&2; exit 3"))
    hub.land(1)
    scenario.launcher("wait", "train", code=None)
    for _ in range(2):
        hub.ticked()
    _, comment = hub.github.bodies(1)
    assert "train" in comment
    assert "exited with 3" in comment


@pytest.mark.slow
@BOTH
def test_a_job_outlives_the_run_that_started_it_and_inherits_no_token(hub, scenario):
    gate = scenario.gate()
    hub.runner.secrets["HF_TOKEN"] = "hf-secret"
    script = (
        f'echo "$$ ${{GITHUB_TOKEN-none}} ${{CI_JOB_TOKEN-none}} ${{LAUNCHER_GITLAB_TOKEN-none}} '
        f'${{CI_REPOSITORY_URL-none}} $HF_TOKEN" >{gate.enter}; read x <{gate.leave}'
    )
    entry = (
        f"    entrypoint: sh\n    args: [-c, {script!r}]\n    env: {{HF_TOKEN: {{secret: 'env:HF_TOKEN'}}}}\n"
    )
    text = f"version: 1\nname: serve\nroles:\n  main:\n{entry}"
    hub.propose(1, {"serve.launcher.yaml": text})
    hub.land(1)
    pid, *inherited = gate.entered().split()
    assert inherited == ["none"] * 4 + ["hf-secret"]
    assert pid.isdigit()
    hub.propose(2, job("other"))  # checks another commit out, beside the files of the job that runs
    hub.land(2)
    assert scenario.status("serve")["state"] == "RUNNING"
    gate.open()
    scenario.wait("serve")


@pytest.mark.slow
def test_one_manual_run_applies_the_pending_plans_of_several_projects(hub, scenario):
    for name in ("left", "right"):
        hub.push({f"{name}/launcher.toml": f'project = "{name}"\n', f"{name}/job.launcher.yaml": _NAMED})
    told = hub.pushed(code=4).output
    assert "run the workflow by hand" in told
    hub.dispatched("lp3:sha256:" + "0" * 64, code=4)
    hub.dispatched(digest_in(told))
    assert hub.github.conclusions("launcher apply (left, default)") == {hub.commit(): "success"}
    for name in ("left", "right"):
        hub.push({f"{name}/job.launcher.yaml": _NAMED.replace("true", "exit 0")})
    hub.dispatched(digest_in(hub.pushed(code=4).output))
    for name in ("left", "right"):
        assert [each.number for each in scenario.attempts("same", project=name)] == [1, 2]


_NAMED = "version: 1\nname: same\nroles: {main: {run: 'true'}}\n"


@pytest.mark.slow
def test_a_pull_request_mends_a_job_that_could_not_be_started(hub, scenario):
    text = "version: 1\nname: train\nroles:\n  main:\n    entrypoint: /no/such/program\n"
    hub.propose(1, {"train.launcher.yaml": text})
    hub.land(1, code=1)
    assert hub.github.conclusions(APPLIED)[hub.commit()] == "failure"
    hub.propose(2, job("train"))
    hub.land(2)
    assert attempts(scenario, "train")[-1] == "2"
    assert hub.github.conclusions(APPLIED)[hub.commit()] == "success"


@pytest.mark.slow
def test_a_reverted_pull_request_mends_a_failed_job_and_runs_the_former_document_again(hub, scenario):
    for number, run in enumerate(("echo old", "exit 4", "echo old"), 1):
        hub.propose(number, job("train", run))
        hub.land(number)
        scenario.launcher("wait", "train", code=None)
    assert attempts(scenario, "train") == ["1", "2", "3"]
    assert scenario.logs("train").strip() == "old"


@pytest.mark.slow
@BOTH
def test_a_file_of_the_checkout_is_read_by_the_job_that_its_pull_request_adds(hub, scenario):
    """With `workspace: .` the digest of the files is the same in the checkouts of plan and apply."""
    hub.propose(1, {"words.txt": "hello\n", **job("read", "cat words.txt", "workspace: .\n")})
    hub.land(1)
    scenario.wait("read")
    assert scenario.logs("read").strip() == "hello"


@pytest.mark.slow
def test_a_pull_request_of_a_fork_is_shown_on_a_hosted_runner_and_approved_by_the_merge_queue(hub, scenario):
    hub.pull_request(1, job("train"))
    hub.github.pulls[1]["head"]["repo"] = {"full_name": "they/vision"}
    hub.github.faults.forbidden = ["POST", "PATCH"]
    before = len(hub.github.requests)
    ran = hub.planned(1)
    assert ran.runs_on == "ubuntu-latest"
    assert "vision/train: added" in ran.output
    assert "approve its effects by hand" in ran.output
    assert "train" in ran.summary
    assert hub.github.requests[before:] == []
    hub.github.faults.forbidden = []
    hub.queue(1)
    assert attempts(scenario, "train") == ["1"]
    (comment,) = hub.github.bodies(1)
    assert comment.endswith(f"applied at {hub.commit()[:7]}: started train\n")
    hub.pull_request(2, {"README": "of a fork"})
    hub.queue(2)
    assert hub.github.bodies(2) == []


@pytest.mark.slow
def test_a_merge_queue_approves_the_combined_plan_of_two_pull_requests(hub, scenario):
    hub.push({"words.txt": "old\n", **job("read", "cat words.txt", "workspace: .\n")})
    hub.dispatched(digest_in(hub.pushed(code=4).output))
    hub.propose(1, {"words.txt": "new\n"})
    hub.propose(2, {"more.txt": "more\n"})
    hub.queue(1)
    hub.queue(2)
    scenario.wait("read")
    assert attempts(scenario, "read") == ["", "1", "2"]


SIX = {
    "jobs/clean.launcher.yaml": """\
version: 1
name: clean
roles: {main: {run: echo 1 >$LAUNCHER_OUTPUT_DIR/data}}
""",
    "jobs/train.launcher.yaml": """\
version: 1
name: train
matrix: {lr: [0.1, 0.2]}
needs: [clean]
roles:
  main:
    run: cat $<needs.clean.output_dir>/data
    env: {HF_TOKEN: {secret: "env:HF_TOKEN"}}
""",
    "jobs/count.launcher.toml": """\
version = 1
name = "count"
workspace = "."
inputs = ["*.txt"]

[roles.main]
run = "cat *.txt"
""",
    "jobs/words.txt": "words\n",
    "jobs/service.launcher.yaml": """\
version: 1
name: service
roles:
  server: {run: sleep 1000, service: true}
  client: {run: "true"}
""",
    "jobs/component.launcher.yaml": "version: 1\nname: say\ncomponent: utils.echo\nargs: {msg: hello}\n",
    "jobs/nightly.launcher.yaml": """\
version: 1
name: nightly
timeout: 1h
lifecycle: {on_failed: rerun}
roles: {main: {run: date}}
""",
}


@pytest.mark.slow
def test_a_newcomer_with_six_job_files_sets_a_secret_and_runs_the_first_apply_by_hand(tmp_path, scenario):
    with FakeGitHub() as github:
        hub = Hub(tmp_path, github)
        hub.runner.installed(REQUIREMENT)
        hub.push({"launcher.toml": 'project = "vision"\n', **SIX})
        done = scenario.launcher("init", "--ci", "github", cwd=hub.work)
        by_hand = [line.strip() for line in done.err.partition("Next:")[2].splitlines() if line.strip()]
        assert by_hand[1:] == [
            f"set LAUNCHER in {FILE} to what pip should install",  # this checkout is installed from a folder
            "register a runner: Settings, Actions, Runners, New self-hosted runner",
            "gh secret set HF_TOKEN",
        ]
        hub.runner.secrets["HF_TOKEN"] = "hf-secret"
        text = (hub.work / FILE).read_text().replace('LAUNCHER: ""', f'LAUNCHER: "{REQUIREMENT}"')
        hub.push({FILE: text})
        hub.dispatched(digest_in(hub.pushed(code=4).output))
        jobs = ("clean", "train-0p1", "train-0p2", "count", "service", "say", "nightly")
        for name in jobs:
            scenario.launcher("wait", name, cwd=hub.work)
        hub.propose(1, {"jobs/words.txt": "other words\n"})
        hub.land(1)
        assert attempts(scenario, "count") == ["", "1"]
        assert {name: len(attempts(scenario, name)) for name in jobs} == {
            **dict.fromkeys(jobs, 1),
            "count": 2,
        }
