"""Terminals of 60 and 80 columns: nothing that tells rows apart, or is copied, is cut."""

from dataclasses import replace

import pytest

from launcher.cli import use
from launcher.cli.arguments import Arguments, help_text
from launcher.cli.history import history_text
from launcher.cli.main import command, names
from launcher.cli.render.apps import apps_table
from launcher.cli.render.plan_lines import role_lines
from launcher.cli.render.progress import Progress
from launcher.cli.render.values import cut, shortened, table, without_columns
from launcher.components import component_help
from launcher.components.dist import ddp
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord, ReplicaRecord
from launcher.text import width
from tests.unit.cli.worlds import attempt, launch


def test_long_names_keep_the_end_that_tells_them_apart():
    assert shortened("short", 5) == "short"
    assert shortened("a-long-name-01", 8) == "a-…me-01"
    assert len(shortened("x" * 99, 7)) == 7


@pytest.mark.parametrize("columns", [7, 8, 20])
def test_wide_characters_count_twice_where_a_text_is_shortened(columns):
    for text in ("训练数据" * 9, "ab数据" * 9, "e\u0301" * 30):
        assert columns - 1 <= width(shortened(text, columns)) <= columns
        assert columns - 1 <= width(cut(text, columns)) <= columns


@pytest.mark.parametrize("columns", [60, 80])
def test_the_command_of_a_role_with_wide_characters_fits(columns):
    role = {"name": "main", "entrypoint": "echo", "args": ["训练数据" * 30]}
    (line,) = role_lines({"scheduler": "local_cwd", "roles": [role]}, columns)
    assert width(line) <= columns
    assert line.endswith(("…  local_cwd", "…   local_cwd"))  # half a character is left


def test_the_last_column_of_a_table_is_wrapped_below_its_heading():
    text = table(["NAME", "ABOUT"], [["one", "a text of some words"], ["two", "short"]], columns=26)
    assert text.splitlines() == ["NAME  ABOUT", "one   a text of some words", "two   short"]
    text = table(["NAME", "ABOUT"], [["n" * 20, "a text of " * 3 + "words"]], columns=44)
    assert text.splitlines() == [
        f"NAME{' ' * 18}ABOUT",
        f"{'n' * 20}  a text of a text of a",
        f"{' ' * 22}text of words",
    ]
    narrow = table(["NAME", "ABOUT"], [["n" * 20, "a text of words"]], columns=30)
    assert narrow.splitlines()[1:] == [f"{'n' * 20}  a text of words"]


def app(job="train-resnet", message="main/0 exited with 7, and left a long reason behind"):
    made = AppRecord("local_cwd", "default", f"{job}-1-ypfhh", name=job, number=1, state="failed")
    made.message, made.created_at, made.ended_at = message, 1.0, 70.0
    return made


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_an_app_is_one_line_with_its_whole_id_its_state_and_its_reason(columns):
    heading, line = apps_table([app()], color=False, columns=columns).splitlines()
    assert len(line) <= columns
    assert app().app_id in line.split()
    assert "FAILED" in line
    assert line[heading.index("WHY") :].startswith("main/0 e")


def test_a_table_of_80_columns_shows_times_and_a_wider_table_handles():
    heading, line = apps_table([app()], color=False, columns=80).splitlines()
    assert heading.split() == ["STATE", "CREATED", "TOOK", "APP", "WHY"]
    heading, line = apps_table([app()], color=False, columns=130).splitlines()
    assert heading.split() == ["NAME", "ATTEMPT", "STATE", "CREATED", "TOOK", "APP", "WHY"]
    assert app().handle in line
    heading, line = apps_table([app(message="")], color=False, columns=100).splitlines()
    assert app().handle in line


def test_an_app_id_is_never_cut_and_a_pipe_gets_everything():
    long = app(job="x" * 70)
    assert long.app_id in apps_table([long], color=False, columns=60)
    assert long.handle in apps_table([long], color=False)
    assert long.message in apps_table([long], color=False)


@pytest.mark.parametrize("columns", [60, 80])
def test_the_help_of_a_component_fits(columns):
    text = component_help("dist.ddp", ddp, width=columns)
    long = [line for line in text.splitlines() if len(line) > columns]
    assert all(len(line.split()) <= 4 for line in long), long  # a default is not broken


@pytest.mark.parametrize("name", names())
def test_the_help_of_a_command_fits_in_60_columns(monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "60")
    arguments = Arguments(f"launcher {name}")
    command(name).add_arguments(arguments)
    text, _, _ = help_text(command(name), arguments).partition("Examples:")
    prose = [line for line in text.splitlines()[1:] if not line.startswith(" ") and "  " not in line]
    assert [line for line in prose if len(line) > 60] == []


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("with_jobs", [False, True])
def test_the_attempts_of_a_job_fit_and_say_why_each_ran(columns, with_jobs):
    name = "train-resnet-0p01-3" if with_jobs else "train"
    of_ci = {
        "commit": "0123456789abcdef-dirty",
        "actor": "ann.lee",
        "pull_request": "1234",
        "action": "create",
    }
    old = attempt(launch(name), "succeeded", started_at=2.0, ended_at=9000.0, **of_ci)
    old = replace(old, reason="changed: roles.main.args[1], roles.main.env, timeout, resource")
    text = history_text([old], with_jobs=with_jobs, color=False, columns=columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "ATTEMPT" in text
    assert "roles.main.env," in text
    assert "SUCCEEDED" in text


@pytest.mark.parametrize("columns", [40, 60])
def test_the_name_of_a_matrix_is_shortened_until_the_amounts_that_its_jobs_used_fit(columns):
    title = ("a-matrix-with-a-long-name-of-its-own (12 jobs)", "bold")
    amounts = ["cores", "-", "1.8", "1.8", "3", "", ""]
    rows = [[title, "main", *amounts], ["", "", "time", "5m", "28ms", "33ms", "3", "", ""]]
    lines = use._fitted([*map(list, rows)], columns, color=False).splitlines()
    assert all(len(line) <= columns for line in lines)
    assert lines[1].startswith("a")
    assert "s) " in lines[1]
    assert title[0] in use._fitted(rows, None, color=False)


def test_the_amounts_that_a_job_used_fit_in_50_columns():
    headings = ("JOB", "ROLE", "AMOUNT", "ASKED", "MEDIAN", "HIGHEST", "OF", "SOURCE", "SUGGESTED")
    rows = [["train", "", "memory", "16 GiB", "3.1 GiB", "4.2 GiB", "12", "peak", "memory: 5GiB"]]
    without_columns(headings, rows, 50, use._OPTIONAL)
    text = table(headings, rows)
    assert max(map(len, text.splitlines())) <= 50
    assert text.split()[-2:] == ["memory:", "5GiB"]


def running():
    """Return a running app with one replica."""
    app = AppRecord("local_cwd", "p", "app", state="running", started_at=1.0)
    app.replicas = [ReplicaRecord("main", 0, "running")]
    return app


def rows(progress):
    with progress._console.capture() as shown:
        progress._console.print(progress._table())
    return shown.get().splitlines()


def test_jobs_of_one_name_are_distinguished_in_the_live_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    progress = Progress()
    for key in (JobKey("p", "default", "a"), JobKey("p", "dev", "a"), JobKey("p", "default", "b")):
        progress.update(key, running())
    shown = rows(progress)
    assert sorted(line.split()[0] for line in shown[:-1]) == ["b", "p.dev/a", "p/a"]
    assert shown[-1] == "3 jobs: 3 running"


def test_more_jobs_than_lines_are_counted(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "14")
    progress = Progress()
    for number in range(20):
        key = JobKey("p", "t", f"a-very-long-name-of-a-job-for-training-with-{number:02}")
        progress.update(key, running())
    lines = rows(progress)
    assert len(lines) == 13
    assert lines[0] == "a-very-long-name-of-a-job-for-training-with-*"
    assert [line.split()[0] for line in lines[1:-2]] == [f"{number:02}" for number in range(10)]
    assert [line.strip() for line in lines[-2:]] == ["… and 10 more jobs", "20 jobs: 20 running"]


def test_the_live_table_says_on_one_line_why_a_job_has_not_started(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    progress = Progress()
    why = "waits for prepare (running)"
    held = AppRecord("local_cwd", "p", "train-1-abcde", state="waiting", message=why)
    progress.update(JobKey("p", "t", "prepare"), running())
    progress.update(JobKey("p", "t", "train"), held)
    first, second, last = rows(progress)
    assert last == "2 jobs: 1 running, 1 waiting"
    assert first.split()[:2] == ["prepare", "RUNNING"]
    assert second.rstrip().split(maxsplit=2) == ["train", "WAITING", "waits for prepare (running)"]
    held.message = "the process that would start it has died: launcher apply jobs/train.launcher.yaml"
    progress.update(JobKey("p", "t", "a-job-with-a-very-long-name-of-its-own"), held)
    assert [len(line) <= 80 for line in rows(progress)] == [True] * 4
    assert any("the process that would start it has died" in line for line in rows(progress))
