"""The tables of the docs name what the code has: actions, reasons, states, exit codes, variables, macros."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import launcher.errors
from launcher.cli import main
from launcher.cli.skill import EXIT_CODES
from launcher.cli.verify import WRONG
from launcher.errors import NOT_SUCCEEDED, LauncherError
from launcher.plan.model import FAIL_ON
from launcher.plan.step import EFFECTIVE, MARKS, REASONS
from launcher.schedulers import get_scheduler
from launcher.specs import ENDED_STATES, LIVE_STATES, RUN_MACROS, AppDef, Lifecycle, Role
from launcher.specs.app import CAPABILITIES
from tests.snippets import sections

ROOT = Path(__file__).resolve().parents[2]
READS = re.compile(r"(?:LAUNCHER|DOCKER|XDG|GITHUB)_[A-Z0-9_]*[A-Z0-9]|CI|NO_COLOR|COLUMNS|TERM|HOME")
SET_BY_DDP = {"LAUNCHER_TRACKING_EXPERIMENT_NAME", "LAUNCHER_TRACKING_RUN_NAME"}


def rows(page: str, heading: str = "") -> list[list[str]]:
    """Return the cells of every row below a heading; code without its quotes."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    text = sections(text)[heading] if heading else text
    found = re.findall(r"^\| (.+) \|$", text, re.M)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in found]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def row_in(page: str, heading: str) -> str:
    """Return where a row is missing or superfluous, for the messages of tests."""
    return f"docs/{page}.md, table below `{heading}`: a row for each, in the words of the code"


def keyed(page: str, heading: str) -> dict[str, list[str]]:
    """Return the rows by each name in their first cell."""
    return {name: row[1:] for row in rows(page, heading) for name in names(row[0])}


def test_every_action_is_in_the_table_with_its_mark():
    marks = {name: names(row[0])[0] for name, row in keyed("plan-and-apply", "Actions").items()}
    assert marks == MARKS, row_in("plan-and-apply", "Actions")
    assert {"replace", "destroy"} < EFFECTIVE


def test_every_reason_is_in_the_table_in_the_words_of_the_code():
    listed = keyed("plan-and-apply", "Reasons").items()
    assert {code: row[0] for code, row in listed} == REASONS, row_in("plan-and-apply", "Reasons")


def test_every_refusal_on_the_page_of_github_is_in_the_words_of_the_code():
    code = "".join(path.read_text() for path in (ROOT / "launcher").rglob("*.py"))
    quoted = [
        names(row[0])[0] for row in rows("github", "What is refused, and how to go on")[1:] if names(row[0])
    ]
    parts = [part.strip() for text in quoted for part in text.split("…")]
    assert parts
    assert [part for part in parts if part.removesuffix(" since") not in code] == []


def test_every_condition_of_fail_on_is_in_the_table():
    text = (ROOT / "docs" / "plan-and-apply.md").read_text()
    assert f"--fail-on {','.join(FAIL_ON)}" in text


ROWS = [
    ("plan-and-apply", "States of an attempt", LIVE_STATES | ENDED_STATES),
    ("plan-and-apply", "Lifecycle", set(Lifecycle.__dataclass_fields__)),
    ("environment", "Macros",
        {f"$<{name}>" for name in (*RUN_MACROS, "role.NAME.host", "needs.NAME.output_dir")}),
]  # fmt: skip


@pytest.mark.parametrize(("page", "heading", "known"), ROWS, ids=[heading for _, heading, _ in ROWS])
def test_a_table_has_a_row_for_each_state_field_and_macro(page, heading, known):
    assert keyed(page, heading).keys() == known, row_in(page, heading)


def test_every_field_that_a_scheduler_may_reject_is_named_for_its_author():
    page = (ROOT / "docs" / "writing-a-scheduler.md").read_text()
    listed = re.findall(r"not every scheduler can honour \(([^)]+)\)", page)
    assert [{*names(fields)} for fields in listed] == [{field.name for field in CAPABILITIES}]


def test_every_exit_code_is_in_the_table():
    codes = {int(row[0]) for row in rows("exit-codes") if row[0].isdigit()}
    raised = {kind.exit_code for kind in exceptions()}
    pending = 2  # plan --detailed-exitcode, synced
    assert (
        codes
        == EXIT_CODES.keys()
        == {0, pending, NOT_SUCCEEDED, WRONG, main.CLOSED, main.INTERRUPTED, main.TERMINATED} | raised
    )


def test_the_meaning_of_an_exit_code_is_the_same_on_the_page_for_agents():
    text = (ROOT / "docs" / "exit-codes.md").read_text().replace("\\|", "|")
    assert [
        f"| {code} | {meaning} |"
        for code, meaning in EXIT_CODES.items()
        if f"| {code} | {meaning} |" not in text
    ] == []


def test_every_exception_is_in_the_table_with_its_code():
    listed = {name: row[:2] for name, row in keyed("exit-codes", "In Python").items() if row[0].isdigit()}
    known = {kind.__name__: [str(kind.exit_code), f"`{kind.code}`"] for kind in exceptions()}
    assert listed == known, row_in("exit-codes", "In Python")


def exceptions() -> list[type[LauncherError]]:
    return [
        each
        for each in vars(launcher.errors).values()
        if isinstance(each, type) and issubclass(each, LauncherError)
    ]


@pytest.mark.slow
def test_every_variable_that_the_command_reads_is_in_the_table():
    """The variables are all such constants of the code, without those of replicas and batch scripts."""
    named = keyed("environment", "Variables that the command reads").keys()
    replicas = keyed("environment", "Variables of a replica").keys() | SET_BY_DDP
    used = {text for path in (ROOT / "launcher").rglob("*.py") for text in constants(path)}
    assert used - replicas - {"LAUNCHER_ARRAY_DIR"} <= named
    assert {name for name in named if READS.fullmatch(name)} <= used


def constants(path: Path) -> set[str]:
    found = ast.walk(ast.parse(path.read_text()))
    texts = {node.value for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if READS.fullmatch(text)}


@pytest.mark.slow
def test_a_local_replica_has_exactly_the_variables_of_the_table(scenario):
    """Variables that only some replicas get are excepted."""
    listed = keyed("environment", "Variables of a replica")
    scenario.write("env.launcher.yaml", "version: 1\nname: env\nroles: {main: {entrypoint: env}}\n")
    bare = {"PATH": "/usr/bin:/bin", "LAUNCHER_HOME": str(scenario.home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "launcher", "run", "env.launcher.yaml"]
    got = subprocess.run(
        command, cwd=scenario.folder, env=bare, capture_output=True, text=True, check=True
    ).stdout
    seen = set(re.findall(r"^([A-Z_0-9]+)=", got, re.M)) - bare.keys() - {"LC_CTYPE"} | {"PATH"}
    sometimes = {name for name, cells in listed.items() if cells[0].startswith(("with", "if"))}
    assert seen == listed.keys() - sometimes


def test_a_container_has_exactly_the_variables_of_the_table():
    listed = keyed("environment", "Variables of a replica")
    app = AppDef("env", [Role("main", image="busybox:1.37", entrypoint="env")])
    request = get_scheduler("local_docker", "docs").submit_dryrun(app, {}).request
    expected = {name for name, cells in listed.items() if not cells[1].startswith(("no", "the image", "if"))}
    assert request.containers[0].kwargs["environment"].keys() == expected


@pytest.mark.slow
def test_the_variables_of_a_role_win_over_all_variables_but_the_listed_ones(scenario):
    """The role sets all variables to `own`: those with this value in the replica are not overridden."""
    text = (ROOT / "docs" / "environment.md").read_text()
    sentence = re.search(r"A role's own `env` wins over these, except over (.*?)\.", text, re.S)
    listed = {name.replace("<ROLE>", "MAIN") for name in names(sentence[1])}
    known = {name.replace("<ROLE>", "MAIN") for name in keyed("environment", "Variables of a replica")}
    given = "".join(f"      {name}: own\n" for name in known - {"PATH"})
    role = '  main:\n    run: env | grep =own\n    ready: {command: ["true"]}\n    env:\n'
    scenario.write("own.launcher.yaml", f"version: 1\nname: own\nroles:\n{role}{given}")
    scenario.launcher("apply", "own.launcher.yaml", "--yes", "--wait")
    printed = scenario.launcher("logs", "own", "--no-prefix").out
    own = {line.partition("=")[0] for line in printed.splitlines()}
    assert own == known - {"PATH"} - listed | {"LAUNCHER_NEEDS"}
