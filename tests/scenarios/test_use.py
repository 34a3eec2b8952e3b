"""Use is measured, recorded and shown: CPU time and memory of real processes."""

import json
import sqlite3

import pytest

from tests.scenario import Scenario

BURN = "import time\nwhile time.process_time() < {}: pass\n"
ROLES = {
    "burn": BURN.format(0.6) + "held = b'1' * 200_000_000",
    "again": BURN.format(0.3) + "import os, sys\nsys.exit(3 if os.environ['LAUNCHER_RESTART'] == '0' else 0)",
    "orphan": (
        "import os, sys, time\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        + "".join(f"    {line}\n" for line in BURN.format(0.4).splitlines())
        + "    os.write(write, b'1')\n"
        "    time.sleep(1000)\n"
        "os.wait()\n"
        "os.read(read, 1)\n"
    ),
}


@pytest.fixture
def ended(scenario: Scenario) -> Scenario:
    """A succeeded job with a role for each kind of use."""
    roles = {
        name: {"entrypoint": "python3", "args": ["-c", code], "max_retries": 1, "retry_policy": "replica"}
        for name, code in ROLES.items()
    }
    job = {"version": 1, "name": "job", "roles": {**roles, "small": {"entrypoint": "true"}}}
    scenario.run_to_end(scenario.write("job.launcher.yaml", json.dumps(job)))
    return scenario


@pytest.mark.slow
def test_each_role_has_the_use_of_its_processes_and_all_commands_show_it(ended: Scenario) -> None:
    status = ended.status("job")
    used = status["used"]
    cpu_s = {role: use["cpu_user_s"] + use["cpu_system_s"] for role, use in used.items()}
    assert 0.6 <= cpu_s["burn"] < 1.6
    assert 200_000_000 <= used["burn"]["memory_bytes"] < 260_000_000
    assert used["burn"]["memory_source"] == "process"
    assert 0.0 <= cpu_s["small"] < 0.5
    assert used["small"]["memory_bytes"] is None, "it is smaller than the process that started it"
    assert (used["again"]["runs"], 0.6 <= cpu_s["again"] < 2.0) == (2, True)
    assert 0.4 <= cpu_s[""] < 1.4, "of the process that outlived its replica"
    assert cpu_s["orphan"] < 0.4
    of_replicas = {each["role"]: each["use"] for each in status["replicas"]}
    assert of_replicas["burn"] == used["burn"]
    assert of_replicas["again"]["runs"] == 1
    # the same everywhere
    (row,) = json.loads(ended.launcher("history", "job", "--json").out)
    assert row["used"] == used
    assert json.loads(ended.launcher("describe", "job", "--json").out)["used"] == used
    shown = ended.launcher("status", "job").out
    assert "burn: " in shown
    assert "by processes that outlived their replica" in shown
    assert "(largest process)" in ended.launcher("describe", "job").out
    (job,) = json.loads(ended.launcher("use", "job", "--json").out)
    memory = {each["role"]: each for each in job["amounts"] if each["amount"] == "memory_bytes"}
    assert memory["burn"]["highest"] == used["burn"]["memory_bytes"]
    # an older client has written no use: it is unknown everywhere
    with sqlite3.connect(ended.home / "ledger.db") as ledger:
        ledger.execute("UPDATE attempts SET used = ''")
    (row,) = json.loads(ended.launcher("history", "job", "--json").out)
    assert row["used"] == {}
    (job,) = json.loads(ended.launcher("use", "job", "--json").out)
    assert [each["amount"] for each in job["amounts"]] == ["time_s"]
