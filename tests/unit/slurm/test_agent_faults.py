"""What the agent does when Slurm is busy, gone or forgetful, and when the disk is full."""

import json
import os
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.schedulers.slurm.site.agent import ends, slurm
from launcher.schedulers.slurm.site.agent.observe import SECOND_LOOK_S
from tests.unit.slurm.agents import Login, commands, on_small_disk, replace_sleep

ROW = "\\036%s\\037%s\\0370\\037N/A\\037N/A\\037N/A\\037(null)\\037None\\037n3\\037/j/a-1/script-n1.sh"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each sleep of the agent, which does not sleep."""
    found: list[float] = []
    replace_sleep(monkeypatch, found.append)
    return found


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, **texts: str) -> Path:
    """Put commands of Slurm on PATH that do as these shell scripts; `$0.log` may record their calls."""
    made = commands(folder / "bin", **{name: f'echo "$@" >>"$0.log"\n{text}' for name, text in texts.items()})
    monkeypatch.setenv("PATH", f"{made}{os.pathsep}{os.environ['PATH']}")
    return made


def calls(folder: Path, name: str) -> int:
    path = folder / f"{name}.log"
    return path.read_text().count("\n") if path.exists() else 0


BUSY = "echo 'sbatch: error: Batch job submission failed: Resource temporarily unavailable' >&2; exit 1"
DOWN = "echo 'squeue: error: Unable to contact slurm controller (connect failure)' >&2; exit 1"


FREE = '[ "$(wc -l <"$0.log")" -gt 2 ] && echo "7;mini" && exit 0'
REFUSED = {"error": "refused", "message": "Resource temporarily unavailable", "detail": {}}


@pytest.mark.parametrize(
    ("first", "answer", "slept"),
    [(FREE, {"job": "7"}, [1.0, 2.0]), ("", REFUSED, [1.0, 2.0, 4.0, 8.0])],
    ids=["until it is free", "which stays busy"],
)
def test_a_busy_controller_is_asked_again_later_and_later(
    tmp_path, monkeypatch, pauses, first, answer, slept
):
    made = use(monkeypatch, tmp_path, sbatch=f"{first}\n{BUSY}")
    login = Login(tmp_path)
    login.reserve("a-1", "n1")
    assert login.do(**login.creation("a-1", "n1")) == answer
    assert (calls(made, "sbatch"), pauses) == (len(slept) + 1, slept)


def test_a_controller_that_does_not_answer_is_asked_once_a_request(tmp_path, monkeypatch):
    made = use(monkeypatch, tmp_path, squeue=DOWN, sbatch=DOWN, scontrol=DOWN)
    login = Login(tmp_path)
    for app_id in ("a-1", "b-1"):
        login.reserve(app_id, "n1")
    login.do("end", app_id="b-1", outcome={"state": "failed"})
    ops = [
        {"op": "observe", "ended": True},
        login.creation("a-1", "n1"),
        {"op": "observe", "app_ids": ["a-1"]},
    ]
    answers = login.ask(*ops)
    assert [each["error"] for each in answers] == ["unreachable"] * 3
    assert answers[0]["message"] == "squeue: error: Unable to contact slurm controller (connect failure)"
    assert answers[0]["detail"]["apps"].keys() == {"a-1", "b-1"}
    assert (calls(made, "squeue"), calls(made, "sbatch")) == (1, 0)
    assert login.facts("b-1").keys() == {"b-1"}  # needs no controller


def test_a_command_that_hangs_is_ended(tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, squeue="exec sleep 1000")
    monkeypatch.setattr(slurm, "CALL_S", 0.2)
    monkeypatch.setattr(slurm.Slurm.run, "__defaults__", (0.2, "/"))
    login = Login(tmp_path)
    login.reserve("a-1", "n1")
    found = login.do("observe")
    assert (found["error"], found["message"]) == ("unreachable", "squeue got no answer within 0 s")


def test_a_job_that_sbatch_had_submitted_before_it_lost_the_controller_is_adopted(tmp_path, monkeypatch):
    lost = "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1"
    rows = ROW % ("41", "PENDING") + ROW % ("40", "PENDING") + ROW % ("39", "CANCELLED")
    made = use(monkeypatch, tmp_path, sbatch=lost, squeue=f"printf '{rows}'", scancel="")
    login = Login(tmp_path)
    reserved(login)
    assert login.do(**login.creation("a-1", "n1"))["error"] == "unreachable"
    assert login.do(**login.creation("a-1", "n1")) == {"job": "40"}
    assert (made / "scancel.log").read_text() == "41\n"
    assert calls(made, "sbatch") == 1


def reserved(login: Login, app_id: str = "a-1", **files: str) -> None:
    """Reserve an app, whose folder then has these files and the generation that ROW names."""
    login.reserve(app_id, "n1")
    for name, text in {"id": "n1", **files}.items():
        (login.folder(app_id) / name).write_text(text)


def submitted(login: Login) -> None:
    reserved(login, job="40", created='{"at":1}', submitted='{"at":1}')


def test_one_empty_answer_of_squeue_does_not_end_a_job(tmp_path, monkeypatch, pauses):
    """After a restart of the controller squeue may list nothing for a moment."""
    once = f'[ "$(wc -l <"$0.log")" -gt 1 ] && printf \'{ROW % ("40", "RUNNING")}\'; true'
    use(monkeypatch, tmp_path, squeue=once, sacct="exit 1")
    login = Login(tmp_path)
    submitted(login)
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], [row["state"] for row in facts["queue"]]) == (False, ["RUNNING"])
    assert pauses == [SECOND_LOOK_S]


def test_a_job_that_slurm_remembers_has_its_exit_code(tmp_path, monkeypatch, pauses):
    squeue = f"case \"$*\" in *exit_code*) echo '40   768   ';; *) printf '{ROW % ('40', 'FAILED')}';; esac"
    use(monkeypatch, tmp_path, squeue=squeue)
    login = Login(tmp_path)
    submitted(login)
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["queue"], pauses) == (True, [], [])
    assert [facts["ended"][name] for name in ("state", "exit", "nodes")] == ["FAILED", "3:0", "n3"]


def test_apps_are_cancelled_although_slurm_refuses_the_job_of_another_one(tmp_path, monkeypatch):
    rows = "".join(
        (ROW % (job, "PENDING")).replace("/j/a-1/", f"/j/{app}/")
        for job, app in [("40", "a-1"), ("41", "b-1"), ("42", "c-1")]
    )
    denied = "echo 'scancel: error: Kill job error on job id 41: Access/permission denied' >&2; exit 1"
    over = "echo 'scancel: error: Kill job error on job id 42: Invalid job id specified' >&2; exit 1"
    scancel = f'case "$*" in *41*) {denied};; *42*) {over};; esac'
    use(monkeypatch, tmp_path, squeue=f"printf '{rows}'", scancel=scancel)
    login = Login(tmp_path)
    reserved(login, "a-1", submitting="{}")
    reserved(login, "b-1", submitting="{}")
    reserved(login, "c-1", submitting="{}", started='{"job":"42"}')
    found = login.ask(*({"op": "cancel", "app_id": app_id} for app_id in ("a-1", "b-1", "c-1")))
    assert [each.get("is") for each in found] == ["pending", None, "ended"]
    assert found[1]["error"] == "refused"
    assert "permission denied" in found[1]["message"]
    assert login.outcome("a-1")["state"] == "cancelled"
    assert "outcome" not in login.names("b-1")


@pytest.mark.parametrize(
    ("scancel", "found"),
    [("exec sleep 1000", "running"), ("exit 229", "ended")],
    ids=["sends the signal again and again", "tells of an ended job by its exit code alone"],
)
def test_a_running_app_is_cancelled_although_scancel(tmp_path, monkeypatch, scancel, found):
    monkeypatch.setattr(slurm, "SIGNAL_S", 0.2)
    use(monkeypatch, tmp_path, squeue=f"printf '{ROW % ('40', 'RUNNING')}'", scancel=scancel)
    login = Login(tmp_path)
    reserved(login, started='{"job": "40"}')
    assert login.do("cancel", app_id="a-1") == {"is": found}
    assert "cancel" in login.names("a-1")


@pytest.mark.parametrize(("files", "follows"), [
    ({"started": '{"job": "40"}'}, "it is stopped within a minute"),
    ({"submitting": "{}"}, "it will not start"),
], ids=["running", "queued"])  # fmt: skip
def test_the_error_of_a_cancellation_says_that_it_is_on_record(tmp_path, monkeypatch, files, follows):
    """The conductor looks for it from time to time; a job whose app was cancelled runs nothing."""
    use(monkeypatch, tmp_path, squeue=DOWN)
    login = Login(tmp_path)
    reserved(login, **files)
    found = login.do("cancel", app_id="a-1")
    why = "Unable to contact slurm controller (connect failure)"
    assert found["message"] == f"squeue: error: {why}; the cancellation is on record: {follows}"
    assert {"started", "cancel"} & login.names("a-1")


def test_a_long_wait_reads_the_queue_less_and_less_often(tmp_path, monkeypatch):
    made = use(monkeypatch, tmp_path, squeue=f"printf '{ROW % ('40', 'RUNNING')}'")
    login = Login(tmp_path)
    submitted(login)
    clock, looks, queue = [0.0], [], None

    def sleep(seconds: float) -> None:
        looks.append((clock[0], calls(made, "squeue")))
        clock[0] += max(seconds, 0.001)

    monkeypatch.setattr(ends, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    for seconds in (2.0, 4.0, 8.0, 16.0):
        queue = login.do("wait", app_ids=["a-1"], seconds=seconds, queue=queue)["queue"]
    times = [min(at for at, count in looks if count == number) for number in range(1, looks[-1][1] + 1)]
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert times[0] == 0.0
    assert len(pauses) >= 4
    assert pauses[0] >= 2.0
    assert all(later > sooner for sooner, later in pairwise(pauses))


def test_an_outcome_that_is_written_between_two_looks_counts(tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, squeue="true", sacct="exit 1")
    login = Login(tmp_path)
    submitted(login)
    path = login.folder("a-1") / "outcome"
    replace_sleep(monkeypatch, lambda _: path.write_text('{"state": "succeeded"}'))
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["outcome"]) == (False, {"state": "succeeded"})


def test_the_end_of_a_job_that_the_controller_has_forgotten_comes_from_accounting(
    tmp_path, monkeypatch, pauses
):
    sacct = "echo '40|a-1|NODE_FAIL|0:0|2026-11-23T00:55:42|2026-11-23T00:56:42|n3||60|00:00:00|00:00:00|'"
    use(monkeypatch, tmp_path, squeue="true", sacct=sacct)
    login = Login(tmp_path)
    submitted(login)
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["ended"]["state"], facts["ended"]["nodes"]) == (True, "NODE_FAIL", "n3")
    assert pauses == []


def test_the_wait_outlives_a_controller_that_is_away(tmp_path, monkeypatch):
    use(monkeypatch, tmp_path, squeue=DOWN)
    login = Login(tmp_path)
    submitted(login)
    naps = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            (login.folder("a-1") / "outcome").write_text('{"state": "succeeded"}')

    replace_sleep(monkeypatch, sleep)
    assert login.do("wait", app_ids=["a-1"], seconds=60)["apps"].keys() == {"a-1"}


def test_a_full_disk_changes_nothing_and_an_app_can_still_be_aborted(tmp_path):
    code = """
        login = Login(folder.parent)
        login.reserve("a-1", "n1")
        login.reserve("b-1", "n1")
        before = login.names("a-1")
        fill(login.job_dir / "filler")
        print(login.reserve("c-1", "n1")["error"])
        print(login.do(**login.creation("a-1", "n1"))["error"])
        print(login.names("a-1") == before, sorted(path.name for path in (folder / "apps").iterdir()))
        print(login.do("end", app_id="b-1", outcome={"state": "failed"})["error"])
        print(login.do("abort", app_id="a-1", nonce="n1"))
        print(sorted(path.name for path in (folder / "apps").iterdir()))
    """
    full = "full-disk"
    wanted = [full, full, "True ['a-1', 'b-1']", full, "{'removed': True}", "['b-1']"]
    assert on_small_disk(tmp_path / "slurm", "64k", code).splitlines() == wanted


@pytest.mark.parametrize(("state", "released"), [("PENDING", ["a-1"]), ("RESV_DEL_HOLD", [])])
def test_a_hold_of_slurm_for_a_reservation_that_is_gone_is_no_lost_release(
    tmp_path, monkeypatch, state, released
):
    """An operator has deleted the reservation: a released job would run without it."""
    listed = f"case \"$*\" in *AccrueTime*) echo '40   N/A   ';; *) printf '{ROW % ('40', state)}';; esac"
    boot = "echo 'BOOT_TIME = 2026-11-23T00:55:42'"
    use(monkeypatch, tmp_path, squeue=listed, scontrol=boot)
    login = Login(tmp_path)
    submitted(login)
    assert login.do("release", app_ids=["a-1"]) == {"released": released}


@pytest.mark.parametrize(("dependency", "state", "age_s", "freed"), [
    ("afterok:39(unfulfilled)", "succeeded", 60, ["a-1"]),
    ("afterok:39:39(unfulfilled)", "succeeded", 60, ["a-1"]),
    ("afterok:39(unfulfilled)", "succeeded", 5, []),
    ("afterok:39(unfulfilled)", "failed", 60, []),
    ("afterok:39(unfulfilled),afterok:7(unfulfilled)", "succeeded", 60, []),
    ("singleton(unfulfilled)", "succeeded", 60, []),
    ("(null)", "succeeded", 60, []),
])  # fmt: skip
def test_only_a_dependency_on_needs_that_have_succeeded_a_while_ago_is_removed(
    tmp_path, monkeypatch, dependency, state, age_s, freed
):
    """Slurm may take a moment to notice an end, and a user may have added a dependency."""
    row = (ROW % ("40", "PENDING")).replace("(null)", dependency)
    made = use(monkeypatch, tmp_path, squeue=f"printf '{row}'", scontrol="")
    login = Login(tmp_path)
    created = '{"at": 1, "needs": ["b-1"], "waits": {"b-1": "39"}}'
    reserved(login, job="40", created=created, submitted='{"at": 1}')
    outcome = json.dumps({"state": state})
    reserved(login, "b-1", job="39", created='{"at": 1}', started='{"job": "39"}', outcome=outcome)
    os.utime(login.folder("b-1") / "outcome", (0, time.time() - age_s))
    assert login.do("release", app_ids=["a-1"]) == {"released": freed}
    updates = [line for line in (made / "scontrol.log").read_text().splitlines() if "update" in line]
    assert updates == ["update JobId=40 Dependency="] * len(freed)


def test_a_runaway_job_can_be_cancelled_on_a_full_disk(tmp_path, monkeypatch):
    row = ROW % ("40", "RUNNING")
    made = use(monkeypatch, tmp_path, squeue=f"printf '{row}'", scancel="")
    code = """
        login = Login(folder.parent)
        login.reserve("a-1", "n1")
        (login.folder("a-1") / "id").write_text("n1")
        (login.folder("a-1") / "started").write_text('{"job": "40", "at": 1}')
        fill(login.job_dir / "filler")
        print(login.do("cancel", app_id="a-1"))
    """
    assert on_small_disk(tmp_path / "slurm", "64k", code) == "{'is': 'running'}\n"
    assert (made / "scancel.log").read_text() == "40\n"


def test_a_check_answers_only_what_sbatch_says(tmp_path, monkeypatch):
    """No exit code alone counts as a yes; a busy or silent controller leaves the request unjudged."""
    says = (
        "case $(cat) in"
        ' yes) echo "sbatch: Job 7 to start at 2026-01-01T00:00:00 using 1 processors" >&2;;'
        ' silent) echo "Submitted nothing";;'
        f" busy) {BUSY};;"
        ' no) echo "sbatch: error: invalid partition specified: x" >&2;'
        ' echo "allocation failure: Invalid partition name specified" >&2; exit 1;;'
        f" *) {DOWN};; esac"
    )
    made = use(monkeypatch, tmp_path, sbatch=says)
    texts = ["yes", "silent", "busy", "no", "down", "yes"]
    jobs = [{"script": text, "partition": "", "one_node": True} for text in texts]
    down = "squeue: error: Unable to contact slurm controller (connect failure)"
    assert Login(tmp_path).do("check", jobs=jobs)["answers"] == [
        {},
        {"unchecked": "Submitted nothing"},
        {"unchecked": "Resource temporarily unavailable"},
        {"refused": "Invalid partition name specified (invalid partition specified: x)"},
        {"unchecked": down},
        {"unchecked": down},
    ]
    assert (made / "sbatch.log").read_text() == "--test-only\n" * 5
