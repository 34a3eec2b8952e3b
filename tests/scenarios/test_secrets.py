"""Secrets reach the replica that asked for them, and no file or output of launcher."""

import hashlib
import json
from pathlib import Path

import pytest

BY_NAME, BY_FILE = "canary-name-5d1e07", "canary-file-9c44b2"
PROVE = 'printf %s "$TOKEN" | sha256sum >by-name; printf %s "$KEY" | sha256sum >by-file'
ENV = """
env:
  TOKEN: {secret: "env:CANARY_TOKEN"}
  KEY: {secret: "file:keys/key"}
"""


@pytest.fixture
def secret(scenario, monkeypatch):
    """A job with two secrets that can be read."""
    monkeypatch.setenv("CANARY_TOKEN", BY_NAME)
    scenario.write("keys/key", f"{BY_FILE}\n")
    return scenario


def holds_canary(text: str | bytes) -> bool:
    data = text.encode() if isinstance(text, str) else text
    return b"canary-name" in data or b"canary-file" in data


def leaks(scenario, *elsewhere: Path) -> list[str]:
    files = [*scenario.home.rglob("*"), *elsewhere]
    return [str(file) for file in files if file.is_file() and holds_canary(file.read_bytes())]


def got(scenario) -> list[str]:
    """Return the hashes of the values that the replica found in its environment."""
    return [(scenario.folder / name).read_text().split()[0] for name in ("by-name", "by-file")]


WANTED = [hashlib.sha256(value.encode()).hexdigest() for value in (BY_NAME, BY_FILE)]


def test_a_restarted_replica_gets_its_secrets_again(secret):
    file = secret.job(f"{PROVE}; exit $((1 - LAUNCHER_RESTART))", role=f"{ENV}max_retries: 1\n")
    secret.run_to_end(file)
    assert got(secret) == WANTED


def test_run_gives_a_replica_its_secrets(secret):
    secret.launcher("run", secret.job(PROVE, role=ENV))
    assert got(secret) == WANTED
    assert leaks(secret) == []


COMMANDS = [
    ["validate", "FILE"],
    ["compile", "FILE"],
    ["compile", "FILE", "--json"],
    ["plan", "FILE", "--show-request"],
    ["plan", "FILE", "--format", "json"],
    ["plan", "FILE", "--format", "markdown"],
    ["plan", "FILE", "--out", "plan.json"],
    ["run", "FILE", "--dryrun"],
    ["apply", "FILE", "--yes", "--wait", "--logs", "--format", "jsonl"],
    ["apply", "FILE", "--yes", "--wait", "--rerun", "job", "--format", "json"],
    ["plan", "FILE", "--rerun", "job", "--show-request"],
    ["describe", "job"],
    ["describe", "job", "--json"],
    ["status", "job", "--json"],
    ["list", "--json"],
    ["logs", "job"],
]


def test_no_output_and_no_file_of_launcher_holds_the_value_of_a_secret(secret):
    """This is invariant 9."""
    file = secret.job(PROVE, role=ENV)
    for argv in COMMANDS:
        done = secret.launcher(*(str(file) if word == "FILE" else word for word in argv))
        assert not holds_canary(done.out + done.err), argv
    assert got(secret) == WANTED
    assert leaks(secret, secret.folder / "plan.json", file) == []


def test_a_saved_plan_reads_the_secrets_of_the_applying_client(secret, monkeypatch):
    file = secret.job(PROVE, role=ENV)
    monkeypatch.delenv("CANARY_TOKEN")
    secret.plan(file, "--out", "plan.json")
    monkeypatch.setenv("CANARY_TOKEN", BY_NAME)
    secret.launcher("apply", "plan.json", "--wait")
    assert got(secret) == WANTED


def test_the_message_of_a_failure_shows_no_value_of_a_secret(secret):
    broken = secret.job("true", role=ENV)
    broken.write_text(broken.read_text().replace("entrypoint: sh", "entrypoint: no-such-program"))
    done = secret.apply(broken, code=1)
    assert not holds_canary(done.out + done.err)
    failing = secret.job("exit 3", name="failing", role=f"{ENV}max_retries: 1\n")
    done = secret.run_to_end(failing, code=5)
    assert not holds_canary(done.out + done.err)
    assert leaks(secret) == []


def test_the_supervisor_shows_no_value_of_a_secret_in_the_process_list(secret):
    _, gate = secret.running(role=ENV)
    [pid] = secret.supervisors().values()
    shown = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    gate.open()
    secret.wait("job")
    assert not any(map(holds_canary, shown))


def test_missing_secrets_are_found_before_anything_is_submitted(scenario):
    """All missing secrets of all jobs are reported before the first write: no job is submitted."""
    files = [
        scenario.job("true", name="fine"),
        scenario.job("true", name="one", role=ENV),
        scenario.job("true", name="two", role='env: {TOKEN: {secret: "env:CANARY_TOKEN"}}'),
    ]
    done = scenario.apply(*files, code=1)
    key = scenario.folder / "keys" / "key"
    unset = "TOKEN (secret env:CANARY_TOKEN): the environment variable CANARY_TOKEN is not set"
    assert done.err.splitlines() == [
        "error: secrets are missing:",
        f"  default/one: role `main`: {unset}",
        f"  default/one: role `main`: KEY (secret file:{key}): cannot read {key}: No such file or directory",
        f"  default/two: role `main`: {unset}",
        "hint: nothing was submitted; set them and apply again",
    ]
    assert (scenario.apps(), scenario.attempts("fine"), scenario.attempts("one")) == ([], [], [])


def test_a_missing_secret_does_not_stop_a_running_attempt(secret, monkeypatch):
    _, gate = secret.running(role=ENV)
    monkeypatch.delenv("CANARY_TOKEN")
    changed = secret.job(f"{gate.script}; true", role=ENV)
    secret.launcher("apply", changed, "--yes", "--allow-destructive", code=1)
    assert len(secret.supervisors()) == 1
    gate.open()
    secret.wait("job")


def test_finished_work_is_kept_with_another_value_of_a_secret_and_with_none(secret, monkeypatch):
    file = secret.job(PROVE, role=ENV)
    secret.run_to_end(file)
    monkeypatch.setenv("CANARY_TOKEN", "canary-name-rotated")
    assert secret.actions(file) == {"job": "keep"}
    monkeypatch.delenv("CANARY_TOKEN")
    assert secret.actions(file) == {"job": "keep"}
    secret.apply(file)


def test_run_starts_nothing_when_a_secret_is_missing(scenario):
    done = scenario.launcher("run", scenario.job("true", role=ENV), code=1)
    assert "the environment variable CANARY_TOKEN is not set" in done.err
    assert scenario.apps() == []


def test_the_request_on_disk_distinguishes_a_secret_from_a_literal(secret):
    role = 'env: {A: {secret: "env:CANARY_TOKEN"}, B: "env:CANARY_TOKEN"}'
    secret.run_to_end(secret.job("true", role=role))
    [app] = secret.apps()
    request = json.loads((secret.home / "local" / "apps" / app / "request.json").read_text())
    env = request["role_params"]["main"][0]["env"]
    assert (env["A"], env["B"]) == ({"secret": "env:CANARY_TOKEN"}, "env:CANARY_TOKEN")
