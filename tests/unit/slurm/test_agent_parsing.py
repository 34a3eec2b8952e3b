"""What the agent reads from the text of Slurm's commands, and which names it takes. Pure."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from launcher.schedulers.slurm import site
from launcher.schedulers.slurm.site.agent.main import answer
from launcher.schedulers.slurm.site.agent.rows import parse_accounts, parse_jobs, parse_rows
from launcher.schedulers.slurm.site.agent.slurm import BUSY, UNREACHABLE, refusal

SITE = Path(site.__file__).parent


def row(**fields: str) -> str:
    usual = {
        "job": "12", "name": "a-1", "state": "PENDING", "priority": "0", "submitted": "2026-11-23T00:55:42",
        "start": "N/A", "end": "N/A", "dependency": "(null)", "reason": "JobHeldUser",
        "command": "/j/apps/a-1/script-n1.sh",
    }  # fmt: skip
    return "\x1e" + "\x1f".join({**usual, **fields}.values()) + "\n"


@pytest.mark.parametrize("path", sorted(SITE.rglob("*.py")), ids=lambda path: str(path.relative_to(SITE)))
def test_python_3_6_can_read_it(path):
    ast.parse(path.read_text(), str(path), feature_version=(3, 6))


def test_a_row_of_squeue():
    (found,) = parse_rows(row())
    assert (found.job, found.name, found.state, found.held) == ("12", "a-1", "PENDING", True)
    assert time.localtime(found.submitted_at)[:6] == (2026, 11, 23, 0, 55, 42)
    assert (found.start_at, found.end_at, found.reason) == (None, None, "JobHeldUser")
    assert not found.is_over


def test_a_job_is_held_as_long_as_it_has_no_priority():
    """A held job with a dependency may show the reason Dependency, one that was released too."""
    found = parse_rows(row(reason="Dependency") + row(reason="Dependency", priority="4294901755"))
    assert [each.held for each in found] == [True, False]


def test_names_of_other_jobs_forge_no_row():
    text = row(name="x\ny", command="(null)") + "some plugin says hello\n" + row(name="b-1")
    assert [each.name for each in parse_rows(text)] == ["x\ny", "b-1"]


@pytest.mark.parametrize(
    "state", ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "STAGE_OUT"]
)
def test_live_states(state):
    assert not parse_rows(row(state=state))[0].is_over


@pytest.mark.parametrize(
    "state", ["TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "COMPLETED", "FAILED"]
)
def test_states_of_ended_jobs(state):
    assert parse_rows(row(state=state))[0].is_over


def test_jobs_of_scontrol():
    text = (
        "JobId=8 JobName=a-1 UserId=ada(1000) GroupId=ada(1000) Account=(null) JobState=FAILED Reason=None"
        " ExitCode=0:9 StartTime=2026-11-23T00:55:42 EndTime=Unknown NodeList=n[1-2]"
        " Comment=JobState=COMPLETED ExitCode=0:0 \n"
        "JobId=9 JobName=a-1 UserId=eve(1001) JobState=FAILED ExitCode=1:0\n"
    )
    found = parse_jobs(text, 1000)
    assert found.keys() == {"8"}
    assert (found["8"]["state"], found["8"]["exit"], found["8"]["nodes"]) == ("FAILED", "0:9", "n[1-2]")
    assert found["8"]["end"] is None


def test_jobs_of_sacct():
    text = (
        "8|NODE_FAIL|0:0|2026-11-23T00:55:42|2026-11-23T00:56:42|n3\n"
        "9|CANCELLED by 1000|0:15|Unknown|Unknown|None assigned\n"
    )
    found = parse_accounts(text)
    assert (found["8"]["state"], found["8"]["nodes"]) == ("NODE_FAIL", "n3")
    assert found["8"]["end"] - found["8"]["start"] == 60
    assert (found["9"]["state"], found["9"]["nodes"], found["9"]["start"]) == ("CANCELLED", "", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sbatch: error: invalid partition specified: nosuch\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "Invalid partition name specified (invalid partition specified: nosuch)",
        ),
        (
            "sbatch: error: Memory specification can not be satisfied\n"
            "sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
            "Requested node configuration is not available (Memory specification can not be satisfied)",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid qos specification\n",
            "Invalid qos specification",
        ),
        ("", "sbatch said nothing"),
    ],
)
def test_a_refusal_is_one_line(text, said):
    assert refusal(text) == said


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "/etc", "-o", ".hidden", "a\n", "a b", "ä", None, 7, "x" * 300]
)
def test_names_lead_nowhere_else_and_are_no_options(name, tmp_path):
    ops = (
        {"op": "remove", "app_id": name},
        {"op": "make_output", "name": name},
        {"op": "remove_output", "name": name},
        {"op": "cancel", "app_id": name},
    )
    for found in answer({"job_dir": str(tmp_path / "s"), "ops": list(ops)})["ok"]:
        assert found["error"] == "state"
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("message", ["sbatch: error: Unable to contact slurm controller (connect failure)",
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "squeue: error: slurm_receive_msg: Socket timed out on send/recv operation",
    "squeue: error: s_p_parse_file: cannot stat file /x: No such file, retrying in 1sec up to 60sec",
    "sinfo: fatal: Could not establish a configuration source",
    "slurm_load_jobs error: Zero Bytes were transmitted or received",
    "sbatch: error: If munged is up, restart with --num-threads=10",
])  # fmt: skip
def test_messages_of_a_controller_that_does_not_answer(message):
    assert UNREACHABLE.search(message)
    assert not BUSY.search(message)


@pytest.mark.parametrize("message", [
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
    "sbatch: error: Batch job submission failed: Resource temporarily unavailable",
    "sbatch: error: RPC rate limit exceeded too many times",
])  # fmt: skip
def test_messages_of_a_busy_controller(message):
    assert BUSY.search(message)
