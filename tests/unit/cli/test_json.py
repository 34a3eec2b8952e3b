"""--json: every command prints a document when it succeeds, and the object of the error when it fails."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from launcher.cli.arguments import Arguments
from launcher.cli.main import command, main, names
from launcher.cli.schema import KINDS, error_schema, schema
from launcher.errors import LauncherError
from launcher.state.store import Store
from tests import processes
from tests.conftest import ROOT
from tests.scenario import Scenario
from tests.unit.cli.worlds import attempt, launch

EXEMPT = {
    "completion": "prints a script, and its errors are for the shell that evaluates it",
    "top": "is a screen for people, beside `status --json`",
}
"""Commands without --json, and why."""

ELSEWHERE = {
    "ci": "tests/scenarios/ci/test_results.py, on a runner",
    "synced": "tests/scenarios/ci/test_verify.py, in a repository",
}
"""Commands that succeed in another test."""

SUCCESS = {
    "init": [["init", "new"]],
    "fmt": [["fmt", "good.launcher.yaml"], ["fmt", "--check", "good.launcher.yaml"]],
    "validate": [["validate", "good.launcher.yaml"]],
    "compile": [["compile", "good.launcher.yaml"]],
    "plan": [
        ["plan", "good.launcher.yaml"],
        ["plan", "good.launcher.yaml", "--show-request", "--rerun", "good"],
        ["plan", "good.launcher.yaml", "--explain", "good"],
    ],
    "apply": [["apply", "good.launcher.yaml", "--yes", "--wait"]],
    "run": [["run", "--dryrun", "good.launcher.yaml"], ["run", "good.launcher.yaml"]],
    "convert": [["convert", "utils.echo"], ["convert", "Procfile"]],
    "configure": [["configure", "--print"]],
    "list": [["list"]],
    "status": [["status"], ["status", "good"], ["status", "--watch"], ["status", "good", "--watch"]],
    "describe": [["describe", "good"]],
    "history": [["history"], ["history", "good"]],
    "diff": [["diff", "good", "good.launcher.yaml"]],
    "verify": [["verify", "good"]],
    "logs": [["logs", "good"], ["logs", "good/main/0", "--tail", "1"], ["logs", "good", "--restart", "0"]],
    "output": [["output", "good"]],
    "grep": [["grep", "hello"], ["grep", "hello", "good", "--tail", "1"]],
    "use": [["use"], ["use", "good"]],
    "report": [["report"], ["report", "good"]],
    "wait": [["wait", "good"], ["wait", "good", "goo*"]],
    "cancel": [["cancel", "good"]],
    "queue": [["queue"]],
    "start": [["start", "goo*", "--now"]],
    "metrics": [["metrics"], ["metrics", "--textfile", "launcher.prom"]],
    "gc": [["gc", "--dry-run"]],
    "explain": [["explain"], ["explain", "unknown-field"], ["explain", "timeout-minutes"]],
    "components": [["components"], ["components", "utils.echo"], ["components", "utils.echo", "--source"]],
    "schedulers": [["schedulers"]],
    "runopts": [["runopts", "local_cwd"]],
    "schema": [["schema", "error"]],
    "skill": [["skill"]],
    "version": [["version"]],
}
"""Command → command lines that succeed in `world`, where the job `good` has."""

FAILURES = {
    "init": (["init", "--name", "No Name"], "usage"),
    "fmt": (["fmt", "nowhere"], "job-file"),
    "validate": (["validate", "bad.launcher.yaml"], "job-file"),
    "compile": (["compile", "bad.launcher.yaml"], "job-file"),
    "plan": (["plan", "bad.launcher.yaml"], "job-file"),
    "apply": (["apply", "other.launcher.yaml"], "blocked"),
    "run": (["run", "bad.launcher.yaml"], "job-file"),
    "convert": (["convert", "utils.ecco"], "usage"),
    "ci": (["ci", "plan"], "error"),
    "synced": (["synced"], "error"),
    "configure": (["configure", "-s", "nowhere"], "usage"),
    "list": (["list", "-s", "nowhere"], "usage"),
    "status": (["status", "nothing"], "app-not-found"),
    "describe": (["describe", "nothing"], "app-not-found"),
    "history": (["history", "nothing"], "app-not-found"),
    "diff": (["diff", "good", "good@7"], "app-not-found"),
    "verify": (["verify", "nothing"], "app-not-found"),
    "logs": (["logs", "nothing"], "app-not-found"),
    "output": (["output", "nothing"], "app-not-found"),
    "grep": (["grep", "("], "usage"),
    "use": (["use", "nothing"], "app-not-found"),
    "report": (["report", "nothing"], "app-not-found"),
    "wait": (["wait", "nothing"], "app-not-found"),
    "cancel": (["cancel", "nothing*"], "app-not-found"),
    "start": (["start", "good", "--now"], "error"),
    "metrics": (["metrics", "--textfile", "launcher.text"], "usage"),
    "gc": (["gc", "-s", "nowhere"], "usage"),
    "explain": (["explain", "nothing"], "usage"),
    "components": (["components", "nothing"], "usage"),
    "runopts": (["runopts", "nothing"], "usage"),
    "schema": (["schema", "nothing"], "usage"),
}
"""Command → a command line that fails in `world`, and the code; the others know wrong usage alone."""

LINES = {"logs", "grep"}
"""Commands that print a document for each line."""

ERROR = Draft202012Validator(error_schema())
SCHEMAS = {"plan": "plan-v3", "apply": "result-v1", "validate": "diagnostics-v1", "verify": "verify-v1"}
WITH_JSON = [name for name in names() if name not in EXEMPT]
BAD = "version: 1\nname: bad\nroles: {main: {entrypont: echo, num_replicas: 0}}\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with job files and an attempt that has succeeded, which no test changes; its environment."""
    folder = tmp_path_factory.mktemp("json")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHER_")}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "COLUMNS", "PYTHONDONTWRITEBYTECODE"):
            environ.pop(name, None)
        environ |= {"LAUNCHER_HOME": str(folder / "l"), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        patch.chdir(folder)
        words = World(folder, folder / "l", environ)
        words.job("echo hello; echo é >&2", name="good")
        words.launcher("fmt", "good.launcher.yaml")
        words.job("true", name="other")
        words.write("bad.launcher.yaml", BAD)
        words.write("Procfile", "web: sleep 1\n")
        words.launcher("apply", "good.launcher.yaml", "--yes", "--wait")
        yield words


class World(Scenario):
    """A scenario with an environment of its own, for several tests."""

    def __init__(self, folder: Path, home: Path, environ: dict[str, str]) -> None:
        super().__init__(folder, home)
        self.environ = environ

    def launcher(self, *argv, env=None, **options):
        return super().launcher(*argv, env={**self.environ, **(env or {})}, **options)


def judge(name):
    file = ROOT / "schemas" / f"{SCHEMAS.get(name, 'error-v1')}.schema.json"
    return Draft202012Validator(json.loads(file.read_text()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_under_its_draft_and_printed_as_it_is_published(world, kind):
    Draft202012Validator.check_schema(schema(kind))
    [published] = (ROOT / "schemas").glob(f"{kind}-v*.schema.json")
    assert world.launcher("schema", kind).out == published.read_text()


@pytest.mark.parametrize("name", names())
def test_every_command_has_the_option_or_a_reason(name):
    arguments = Arguments(name)
    command(name).add_arguments(arguments)
    declared = {word for argument in arguments.declared for word in argument.names}
    assert ("--json" in declared) != (name in EXEMPT)
    assert name in SUCCESS or name in EXEMPT or name in ELSEWHERE, "add a line to SUCCESS"


@pytest.mark.parametrize("argv", [words for lines in SUCCESS.values() for words in lines], ids=" ".join)
def test_each_successful_command_prints_one_document(world, argv):
    out = world.launcher(*as_json(argv)).out
    documents = [json.loads(line) for line in out.splitlines()] if argv[0] in LINES else [json.loads(out)]
    assert documents
    if argv[0] in SCHEMAS and "--explain" not in argv:
        judge(argv[0]).validate(documents[0])
    if argv[0] in LINES:
        assert "hello" in str(documents[0]) or "é" in str(documents[0])


def as_json(argv):
    """Put the option before the arguments, since words behind a component belong to the component."""
    return [argv[0], "--json", *argv[1:]]


@pytest.mark.parametrize("name", WITH_JSON)
def test_each_failed_command_prints_one_error_object(world, name):
    argv, code = FAILURES.get(name, ([name, "too", "many", "words"], "usage"))
    done = world.launcher(*as_json(argv), code=None)
    found = json.loads(done.out)
    (judge("validate") if name == "validate" else ERROR).validate(found)
    assert (found["code"], found["exit"]) == (code, done.code)
    assert ("diagnostics" in found) == (code == "job-file")
    assert found["message"].splitlines()[0] in done.err or name == "validate"


@pytest.mark.parametrize("name", WITH_JSON)
def test_a_wrong_command_line_prints_one_error_object(name, capsys):
    assert main([name, "--json", "--nope"]) == 64
    done = capsys.readouterr()
    found = json.loads(done.out)
    ERROR.validate(found)
    assert (found["code"], found["exit"]) == ("usage", 64)
    assert done.err.startswith(f"error: {found['message']}\n")


def test_words_behind_a_component_are_its_arguments(world):
    assert world.launcher("run", "utils.echo", "--json", code=64).out == ""
    assert world.launcher("run", "--", "utils.echo", "--json", code=64).out == ""
    assert json.loads(world.launcher("aply", "--json", code=64).out)["hint"] == "did you mean `apply`?"


def test_all_diagnostics_are_in_the_object_with_their_places(world):
    done = world.launcher("plan", "--json", "bad.launcher.yaml", code=6)
    found = json.loads(done.out)
    places = [(each["file"], each["span"]["line"], each["code"]) for each in found["diagnostics"]]
    assert ("bad.launcher.yaml", 3, "unknown-field") in places
    assert len(places) > 1
    assert done.err == f"error: {found['message']}\n"
    validated = json.loads(world.launcher("validate", "--json", "bad.launcher.yaml", code=6).out)
    assert validated["diagnostics"] == found["diagnostics"]


def test_a_stream_of_events_ends_with_the_error(world):
    done = world.launcher("apply", "other.launcher.yaml", "--format", "jsonl", code=3)
    ERROR.validate(json.loads(done.out))


def test_a_name_of_any_bytes_is_an_error_that_says_so(world):
    for name in ("\udcff", "\udcff*", "good@\udcff"):
        found = json.loads(world.launcher("status", "--json", name, code=64).out)
        assert "is not a valid name of an app" in found["message"]


def test_two_formats_are_refused_in_json(world):
    done = world.launcher("plan", "--json", "--format", "markdown", code=64)
    assert "cannot be combined" in json.loads(done.out)["message"]


def test_errors_of_several_apps_are_in_the_result(scenario):
    with Store.open() as store:
        store.record(attempt(replace(launch("lost-1"), scheduler="gone"), "running"))
        store.record(attempt(replace(launch("lost-2"), scheduler="gone"), "running"))
        store.record(attempt(launch("good"), "succeeded"))
    for argv in (["wait", "lost-*", "good"], ["cancel", "lost-*", "good", "--yes"], ["gc"]):
        done = scenario.launcher(*argv, "--json", code=None)
        result = json.loads(done.out)
        assert (result["exit"], "problems" in result) == (done.code, True), done
        for problem in result["problems"]:
            assert "lost-" in problem.pop("what") or argv[0] == "gc"
            ERROR.validate(problem)
            assert problem["message"] in done.err
        if argv[0] != "gc":
            assert (done.code, len(result["problems"])) == (1, 2)
            assert "good" in {app["job"] for app in result["apps"]}


def test_a_job_that_could_not_be_applied_is_a_problem_of_the_result(scenario):
    scenario.write("a.launcher.yaml", "version: 1\nname: a\nroles: {main: {entrypoint: ./missing}}\n")
    done = scenario.launcher("apply", scenario.job("true"), "a.launcher.yaml", "--yes", "--json", code=1)
    result = json.loads(done.out)
    judge("apply").validate(result)
    [problem] = result["problems"]
    assert (problem["what"], problem["code"]) == ("a", "start")


def test_files_that_cannot_be_formatted_are_problems_of_the_result(scenario):
    scenario.write("a.launcher.yaml", "{name: a, version: 1")
    scenario.write("b.launcher.yaml", "name: b\nversion: 1\nroles: {main: {entrypoint: 'true'}}\n")
    result = json.loads(scenario.launcher("fmt", "--check", "--json", code=6).out)
    [problem] = result["problems"]
    assert (problem["what"], problem["code"], problem["exit"]) == ("./a.launcher.yaml", "job-file", 6)
    assert problem["diagnostics"][0]["code"] == "yaml-syntax"
    [change] = result["changed"]
    assert "+version: 1\n" in change["diff"]
    assert (result["exit"], result["written"]) == (6, False)


@pytest.mark.parametrize(
    "argv",
    [["wait", "job"], pytest.param(["run", "job.launcher.yaml"], marks=pytest.mark.slow)],
    ids=["wait", "run"],
)
def test_an_interrupt_prints_an_error_object(scenario, argv):
    gate = scenario.gate()
    file = scenario.job(gate.script)
    if argv[0] == "wait":
        scenario.apply(file)
        gate.entered()
    client = scenario.start(argv[0], "--json", *argv[1:])
    if argv[0] == "wait":
        processes.until_it_waits(client.pid)
    else:
        gate.entered()
    client.send_signal(signal.SIGINT)
    out, err = client.communicate()
    ERROR.validate(json.loads(out))
    assert (json.loads(out)["code"], client.returncode) == ("interrupted", 130)
    assert "Traceback" not in err
    if argv[0] == "wait":
        scenario.cancel("job")


OF_RUNNERS = {"CI": "true", "GITHUB_ACTIONS": "true", "GITLAB_CI": "true", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.mark.parametrize(
    "argv",
    [["status", "good"], ["plan", "good.launcher.yaml"], ["validate", "bad.launcher.yaml"], ["logs", "good"]],
    ids=lambda argv: argv[0],
)
def test_the_variables_of_a_ci_runner_change_no_output(world, argv):
    for more in ([], ["--json"]):
        plain = world.launcher(*argv, *more, code=None)
        on_runner = world.launcher(*argv, *more, env={**OF_RUNNERS, "COLUMNS": "40"}, code=None)
        assert on_runner.code == plain.code
        assert without_ids(on_runner.out) == without_ids(plain.out)


def without_ids(text):
    """Return the lines without ids, times, the seal of a plan, ages and the width of their column."""
    own = ("plan_id", "created_at", "expires_at", "seal")
    return [
        re.sub(r" {2,}", "  ", re.sub(r"\d+[sm] ago", "", line))
        for line in text.splitlines()
        if not line.strip(' "').startswith(own)
    ]


def test_an_unexpected_error_is_an_object_before_its_traceback(monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("hush")

    monkeypatch.setattr(command("version"), "run", fail)
    with pytest.raises(RuntimeError):
        main(["version", "--json"])
    found = json.loads(capsys.readouterr().out)
    ERROR.validate(found)
    assert found["code"] == "internal"
    assert "hush" not in found["message"]


def every(kind):
    for each in kind.__subclasses__():
        yield each
        yield from every(each)


def test_codes_are_words_of_the_schema():
    form = error_schema()["properties"]["code"]
    for kind in {LauncherError, *every(LauncherError)}:
        Draft202012Validator(form).validate(kind.code)
