"""The modules that a command loads: everyday commands load no heavy ones, whatever their arguments."""

import subprocess
import sys
from functools import cache

import pytest

from launcher import paths

HEAVY = {
    *{"docker", "jsonschema", "pydantic", "pydantic_core", "requests", "rich", "ruamel", "shtab", "textual"},
    *{"tomli", "yaml"},
}
SLOW = {
    *{"asyncio", "concurrent", "contextlib", "dataclasses", "enum", "importlib", "inspect", "json"},
    *{"pathlib", "re", "signal", "subprocess", "typing", "urllib", "warnings"},
}
"""Standard library, 0.3 to 15 ms each: up to a third of what a bare interpreter takes."""

NOT_FOR_VALIDATE = {
    *{"argparse", "docker", "gettext", "jsonschema", "multiprocessing", "requests", "rich", "shtab",
        "_sqlite3"},
    *{"launcher.apply", "launcher.plan.model", "launcher.runner.runner", "launcher.schedulers.local.logs"},
}  # fmt: skip
NOT_FOR_A_SAVED_PLAN = {
    *{"_hashlib", "argparse", "dataclasses", "gettext", "inspect", "multiprocessing", "shlex", "tempfile"},
    *{"textwrap", "threading", "traceback"},
    *{"launcher.inventory.find", "launcher.schedulers.workspaces"},
    *{f"launcher.schedulers.local.{name}" for name in ("filewatch", "logfiles", "logs")},
}
"""What only a failure, an interrupt, a workspace or a reader of logs needs."""

NOT_FOR_AN_UNCHANGED_PLAN = {
    *{"_hashlib", "ast", "copy", "dataclasses", "graphlib", "inspect"},
    *{"launcher.plan.effects", "launcher.plan.recheck"},
    *{"launcher.schedulers.local.appview", "launcher.specs.binding", "launcher.specs.canonical"},
    *{"launcher.specs.check", "launcher.workspace.manifest"},
}
"""What a plan needs where something starts, stops, runs or has changed."""

NOT_FOR_A_RUN = {"launcher.apply", "launcher.plan", "launcher.runner.config", "launcher.workspace.context"}
NOT_FOR_A_RUN |= {"launcher.turns"}
NOT_FOR_A_RUN |= {f"launcher.components.{name}" for name in ("call", "finder", "linter", "signature")}
"""What `run` of a job file without a workspace and resources has no use for: plans, components, turns."""

NOT_FOR_A_SUPERVISOR = {
    *{"collections", "ctypes", "errno", "functools", "heapq", "selectors", "signal", "socket", "threading"},
    *{"__future__", "_heapq", "fcntl"},
    *{"launcher.errors", "launcher.filelock", "launcher.holding.way", "launcher.paths", "launcher.specs"},
    *{"launcher.schedulers.appfolder", "launcher.schedulers.ended_process"},
    *{"launcher.schedulers.local.appview", "launcher.schedulers.local.stderr"},
}
"""What only an undone submission, a failure, a restart or a client needs."""

FREQUENT = ["list", "status", "status job", "logs job", "wait job", "--help"]
EVERYDAY = [
    *("cancel job", "describe job", "queue", "queue --json", "--version", "version", "top --help"),
    *("list --json", "status job --json"),
]


def loaded_by(argv, *, code=0):
    """Return the top-level modules that `launcher ARGV` imports beyond a bare interpreter."""
    # By `-m`, `runpy` would load importlib and contextlib before the first line of ours.
    program = "from launcher.__main__ import main; main()"
    return importtime(["-c", program, *argv], code=code) - loaded_by_nothing()


@cache
def loaded_by_nothing():
    return importtime(["-c", "pass"])


def importtime(argv, *, code=0):
    return {name.partition(".")[0] for name in modules(argv, code=code)}


def modules(argv, *, code=0, **popen):
    """Return the full names of the modules that `python ARGV` imports."""
    command = [sys.executable, "-X", "importtime", *map(str, argv)]
    got = subprocess.run(command, capture_output=True, text=True, check=False, **popen)
    assert got.returncode == code, got.stdout + got.stderr
    lines = [line for line in got.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture
def finished(scenario):
    scenario.run_to_end(scenario.job("echo hello"))
    return scenario


def test_everyday_commands_load_nothing_heavy_and_the_most_frequent_ones_nothing_slow(finished):
    loaded = {command: loaded_by(command.split()) for command in (*FREQUENT, *EVERYDAY)}
    heavy = {command: found & HEAVY for command, found in loaded.items()}
    assert {command: found for command, found in heavy.items() if found} == {}
    slow = {command: loaded[command] & SLOW for command in FREQUENT}
    assert {command: found for command, found in slow.items() if found} == {}


def test_a_wait_records_the_end_of_its_job_without_the_slow_parts_of_the_standard_library(scenario):
    scenario.apply(scenario.job("sleep 0.2"))
    assert loaded_by(["wait", "job"]) & SLOW == set()
    assert scenario.attempts("job")[-1].used


def test_logs_of_several_replicas_leave_the_slow_parts_of_the_standard_library_alone(scenario):
    scenario.run_to_end(scenario.job("echo hello", replicas=2))
    assert loaded_by(["logs", "job"]) & SLOW == set()


def test_queue_loads_no_client_of_an_engine_that_is_not_there(finished, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{finished.folder}/none.sock")
    assert loaded_by(["queue"]) & (HEAVY | SLOW | {"http", "socket", "ssl"}) == set()


@pytest.mark.parametrize("name", ["docker", "local", "slurm"])
def test_a_scheduler_loads_without_modules_that_inspect_code(name):
    loaded = modules(["-c", f"import launcher.schedulers.{name}.scheduler"])
    assert f"launcher.schedulers.{name}.scheduler" in loaded
    assert loaded & {"ast", "dataclasses", "inspect"} == set()


def test_a_list_without_any_app_loads_no_scheduler(scenario):
    assert loaded_by(["list"]) & (HEAVY | SLOW) == set()
    loaded = modules(["-m", "launcher", "list"])
    assert not [name for name in loaded if name.endswith(".scheduler") or name == "json"]


def test_a_list_loads_only_what_reads_records(finished):
    loaded = modules(["-m", "launcher", "list"])
    assert "launcher.cli.status" not in loaded
    assert {"launcher.state.reader"} == loaded & {
        *{"launcher.state.reader", "launcher.state.store", "launcher.state.restore"},
        *{"launcher.specs", "datetime", "json"},
    }


def test_a_supervisor_starts_without_modules_that_it_seldom_needs():
    load = paths.program("launcher.schedulers.local.supervisor").removesuffix("; main()")
    look = "from launcher.schedulers.local import rundir; rundir.cancellation('/nowhere')"
    loaded = modules(["-I", "-S", "-c", f"{load}; {look}"])
    assert "launcher.schedulers.local.held" in loaded
    assert {*loaded, *(name.partition(".")[0] for name in loaded)} & (SLOW | NOT_FOR_A_SUPERVISOR) == set()


def test_version_loads_next_to_nothing():
    assert loaded_by(["--version"]) & (HEAVY | SLOW | {"argparse", "json", "_sqlite3", "re", "enum"}) == set()


def test_a_saved_plan_is_applied_without_job_file_libraries(scenario):
    scenario.plan(scenario.job("true"), "--out", "plan.json")
    argv = ["apply", str(scenario.folder / "plan.json"), "--root", str(scenario.folder), "--wait"]
    loaded = importtime(["-m", "launcher", *argv])
    assert loaded & (HEAVY | NOT_FOR_A_SAVED_PLAN) == set()


def test_a_validation_of_job_files_loads_no_plan_and_no_engine(scenario):
    file = scenario.job("true")
    argv = ["-m", "launcher", "validate", str(file)]
    assert modules(argv, cwd=scenario.folder) & NOT_FOR_VALIDATE == set()  # compiles
    assert modules(argv, cwd=scenario.folder) & NOT_FOR_VALIDATE == set()  # takes what was compiled


def test_importing_the_package_costs_nothing():
    assert importtime(["-c", "import launcher"]) - loaded_by_nothing() <= {"launcher", "__future__"}


def test_a_run_of_a_job_file_loads_no_plan_no_component_and_nothing_of_turns(scenario):
    file = scenario.job("true")
    loaded = modules(["-m", "launcher", "run", str(file)], cwd=scenario.folder)
    assert {
        name for name in loaded if any(f"{name}.".startswith(f"{each}.") for each in NOT_FOR_A_RUN)
    } == set()


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_plan_of_an_unchanged_job_loads_nothing_that_only_changes_need(scenario, is_folder):
    file = scenario.job("echo hello")
    scenario.run_to_end(file)
    argv = ["-m", "launcher", "plan", str(file.parent if is_folder else file)]
    modules(argv, cwd=scenario.folder)  # keeps what the file compiles to
    loaded = modules(argv, cwd=scenario.folder)
    assert loaded & NOT_FOR_AN_UNCHANGED_PLAN == set()
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()


def test_a_plan_of_a_changed_job_loads_what_compares_documents(scenario):
    scenario.run_to_end(scenario.job("echo hello"))
    loaded = modules(["-m", "launcher", "plan", str(scenario.job("echo bye"))], cwd=scenario.folder)
    assert {"launcher.plan.effects", "launcher.specs.canonical"} <= loaded
