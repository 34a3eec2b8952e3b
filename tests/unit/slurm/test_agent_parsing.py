"""What the agent reads from the text of Slurm's commands, and which names it takes. Pure."""

import ast
import time
from pathlib import Path

import pytest

from launcher.schedulers.slurm import site
from launcher.schedulers.slurm.site.agent.site import answer
from launcher.schedulers.slurm.site.agent.slurm import (
    BUSY,
    UNREACHABLE,
    code_and_signal,
    is_cut,
    jobs_of,
    listed,
    parse_accounts,
    parse_column,
    parse_rows,
    refusal,
)
from launcher.schedulers.slurm.site.shared import Owners

SITE = Path(site.__file__).parent


def row(**fields: str) -> str:
    usual = {
        "job": "12", "state": "PENDING", "priority": "0", "submitted": "2026-11-23T00:55:42",
        "start": "N/A", "end": "N/A", "dependency": "(null)", "reason": "JobHeldUser",
        "nodes": "n[1-2]",
        "command": "/j/apps/a-1/script-n1.sh",
    }  # fmt: skip
    return "\x1e" + "\x1f".join({**usual, **fields}.values()) + "\n"


@pytest.mark.parametrize("path", sorted(SITE.rglob("*.py")), ids=lambda path: str(path.relative_to(SITE)))
def test_python_3_6_can_parse_the_programs(path):
    ast.parse(path.read_text(), str(path), feature_version=(3, 6))


def test_a_row_of_squeue_gives_job_state_times_and_nodes():
    (found,) = parse_rows(row(), Owners())
    assert (found.job, found.app_id, found.state, found.held) == ("12", "a-1", "PENDING", True)
    assert time.localtime(found.submitted_at)[:6] == (2026, 11, 23, 0, 55, 42)
    assert (found.start_at, found.end_at, found.reason, found.nodes) == (None, None, "JobHeldUser", "n[1-2]")
    assert not found.is_over


def test_rows_of_squeue_are_selected_by_their_script():
    text = row(job="1") + row(job="2", command="/k/apps/a-1/script-n2.sh") + row(job="3", command="(null)")
    assert [each.job for each in parse_rows(text, Owners(), ("a-1", "n2"))] == ["2"]


def test_a_job_is_held_as_long_as_it_has_no_priority():
    """Held and released jobs with a dependency may both show the reason Dependency."""
    found = parse_rows(row(reason="Dependency") + row(reason="Dependency", priority="4294901755"), Owners())
    assert [each.held for each in found] == [True, False]


def test_texts_of_other_jobs_forge_no_row():
    text = row(job="1", command="x\ny") + "some plugin says hello\n" + row(job="2")
    assert [each.job for each in parse_rows(text, Owners())] == ["1", "2"]


@pytest.mark.parametrize(("command", "app_id"), [
    ("/j/my apps/a-1/script-n1.sh", "a-1"), ("/j/apps/a-1/script.sh", ""),
    ("/home/ada/script-n1.sh/run", ""), ("(null)", ""), ("", ""),
])  # fmt: skip
def test_the_script_of_a_job_names_its_app(command, app_id):
    assert parse_rows(row(command=command), Owners())[0].app_id == app_id


def test_the_tasks_of_an_array_name_its_apps(tmp_path):
    (tmp_path / "tasks").write_text("a-1 n1\nb-1 n2\n")
    script = str(tmp_path / "array.sh")
    text = "".join(row(job=job, command=script) for job in ("7_1", "7_0", "7_2", "7_[3-4]", "7"))
    owners = [each.owner for each in parse_rows(text, Owners())]
    assert owners == [("b-1", "n2"), ("a-1", "n1"), ("", ""), ("", ""), ("", ""), ("", "")]
    found = parse_rows(row(job="7_[0-1%5]", command=script), Owners(), ("b-1", "n2"))
    assert [each.job for each in found] == ["7_1"]


@pytest.mark.parametrize(("line", "jobs"), [
    ("7", ["7"]), ("7_3", ["7_3"]), ("7_[3]", ["7_3"]), ("7_[0-2,5%4]", ["7_0", "7_1", "7_2", "7_5"]),
    ("7_[1,8-20:6]", ["7_1", "7_8", "7_14", "7_20"]), ("7_[0-3,...]", ["7_[0-3,...]"]), ("7+1", ["7+1"]),
])  # fmt: skip
def test_a_line_of_squeue_stands_for_one_job_or_for_many_tasks(line, jobs):
    assert jobs_of(line) == jobs
    assert is_cut(row(job=line)) == ("..." in line)


def test_the_words_for_jobs_name_each_job_once():
    jobs = ["7_3", "40", "7_0", "9_5", "7_1", "41+1", "7_10"]
    words = listed(jobs)
    assert words == ["40", "41+1", "7_[0-1,3,10]", "9_5"]
    assert sorted(job for word in words for job in jobs_of(word)) == sorted(jobs)
    many = [f"7_{k}" for k in range(0, 40_000, 2)]
    assert [job for word in listed(many) for job in jobs_of(word)] == many
    assert max(map(len, listed(many))) < 128 * 1024


def test_an_array_whose_folder_is_gone_has_no_apps():
    assert parse_rows(row(job="7_0", command="/no/array.sh"), Owners())[0].owner == ("", "")


LIVE = ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "STAGE_OUT"]
FINAL = ["TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "COMPLETED", "FAILED"]


def test_a_job_is_over_in_a_final_state_alone():
    found = parse_rows("".join(row(state=state) for state in [*LIVE, *FINAL]), Owners())
    assert [each.state for each in found if each.is_over] == FINAL


def test_a_further_column_of_squeue_is_read_by_job():
    text = (
        "8                       2026-11-23T12:35:27     \n9                       N/A                     \n"
    )
    assert parse_column(text) == {"8": "2026-11-23T12:35:27", "9": "N/A"}


def test_exit_codes_of_squeue_give_code_and_signal():
    """Some versions of Slurm show the number that wait(2) gives."""
    shown = {"0": "0:0", "768": "3:0", "9": "0:9", "4021": "0:53", "0:53": "0:53", "3:0": "3:0", "": ""}
    assert {text: code_and_signal(text) for text in shown} == shown


def test_rows_of_sacct_give_state_nodes_and_times():
    text = (
        "8|a-1|NODE_FAIL|0:0|2026-11-23T00:55:42|2026-11-23T00:56:42|n3||60|00:00:00|00:00:00|\n"
        "9|b-1|CANCELLED by 1000|0:15|Unknown|Unknown|None assigned||60|00:00:00|00:00:00|\n"
    )
    found = parse_accounts(text, {"8": "a-1", "9": "b-1"})
    assert (found["8"]["state"], found["8"]["nodes"]) == ("NODE_FAIL", "n3")
    assert found["8"]["end"] - found["8"]["start"] == 60
    assert (found["9"]["state"], found["9"]["nodes"], found["9"]["start"]) == ("CANCELLED", "", None)


def test_the_last_run_of_the_job_with_the_right_name_counts_among_jobs_with_one_id():
    """A controller that lost its state counts anew; a requeued job has a line for each run."""
    text = (
        "8|a-1|COMPLETED|0:0|2026-11-23T00:50:00|2026-11-23T00:51:00|n1||60|00:00:00|00:00:00|\n"
        "8|a-1|FAILED|3:0|2026-11-23T00:55:00|2026-11-23T00:56:00|n2||60|00:00:00|00:00:00|\n"
        "8|a-1|NODE_FAIL|0:0|2026-11-23T00:52:00|2026-11-23T00:53:00|n3||60|00:00:00|00:00:00|\n"
        "8|x|y|CANCELLED|0:0|2026-11-23T01:00:00|2026-11-23T01:01:00|n3||60|00:00:00|00:00:00|\n"
        "8|other|CANCELLED|0:0|2026-11-23T01:00:00|2026-11-23T01:01:00|n3||60|00:00:00|00:00:00|\n"
        "9|a-1|COMPLETED|0:0|2026-11-23T00:50:00|2026-11-23T00:51:00|n1||60|00:00:00|00:00:00|\n"
    )
    found = parse_accounts(text, {"8": "a-1", "9": "b-1"})
    assert {job: (each["state"], each["nodes"]) for job, each in found.items()} == {"8": ("FAILED", "n2")}


def test_steps_of_sacct_belong_to_the_run_above_them():
    end = "COMPLETED|0:0|2026-11-23T00:{}:00|2026-11-23T00:{}:10|n1"
    early, late = end.format(50, 50), end.format(55, 55)
    text = (
        f"8|a-1|{early}||10|00:09.000|00:00.000|\n"
        f"8.0|main|{early}|2|10|00:09.000|00:00.000|9K\n"
        f"8|a-1|{late}||10|00:08.500|00:00.500|\n"
        f"8.batch|batch|{late}|1|10|00:01.000|00:00.500|64K\n"
        f"8.0|main|{late}|2|10|00:02.500|00:00.250|2.5M\n"
        f"8.1|main|{late}|1|5|1-01:00:01|00:00.250|512K\n"
        f"8.2|side|{late}|1|5|INVALID||\n"
        f"9|other|{late}||10|00:08.500|00:00.500|\n"
        f"9.0|main|{late}|2|10|00:02.500|00:00.250|2.5M\n"
    )
    steps = parse_accounts(text, {"8": "a-1", "9": "b-1"})["8"]["steps"]
    assert steps == {"main": [3, 25, 90003.5, 0.5, 2621440], "side": [1, 5, 0.0, 0.0, 0]}


@pytest.mark.parametrize(("text", "output"), [
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
    ("sbatch: error: Batch job submission failed: Invalid qos specification\n", "Invalid qos specification"),
    ("", "sbatch said nothing"),
])  # fmt: skip
def test_a_refusal_is_one_line(text, output):
    assert refusal(text) == output


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "/etc", "-o", ".hidden", "a\n", "a b", "ä", None, 7, "x" * 300]
)
def test_hostile_names_are_refused_before_any_file_is_made(name, tmp_path):
    ops = (
        {"op": "remove", "app_id": name},
        {"op": "make_output", "name": name},
        {"op": "remove_output", "name": name},
        {"op": "cancel", "app_id": name},
    )
    for found in answer({"job_dir": str(tmp_path / "s"), "ops": list(ops)})["ok"]:
        assert found["error"] == "state"
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("message", "is_away"), [
    ("sbatch: error: Unable to contact slurm controller (connect failure)", True),
    ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", True),
    ("squeue: error: slurm_receive_msg: Socket timed out on send/recv operation", True),
    ("squeue: error: s_p_parse_file: cannot stat file /x, retrying in 1sec up to 60sec", True),
    ("sinfo: fatal: Could not establish a configuration source", True),
    ("slurm_load_jobs error: Zero Bytes were transmitted or received", True),
    ("sbatch: error: If munged is up, restart with --num-threads=10", True),
    ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", False),
    ("sbatch: error: Batch job submission failed: Resource temporarily unavailable", False),
    ("sbatch: error: RPC rate limit exceeded too many times", False),
])  # fmt: skip
def test_the_message_of_a_controller_says_whether_it_is_away_or_busy(message, is_away):
    assert bool(BUSY.search(message)) is not is_away
    assert UNREACHABLE.search(message) or not is_away
