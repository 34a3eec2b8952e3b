"""`launcher metrics`: Prometheus can read it whatever the names of jobs, and it matches the ledger."""

import os
import re
import sqlite3
import stat

import pytest
from prometheus_client.parser import text_string_to_metric_families

from launcher import paths
from launcher.holding.use import Use
from launcher.state.store import Store
from tests.processes import gone
from tests.unit.cli.worlds import attempt, launch
from tests.unit.test_docs_tables import keyed

HOSTILE = 'a"} 1\nlauncher_apps{state="x\\'
Samples = dict[tuple[str, str], float]


def read(text: str) -> Samples:
    """Return each value by (name, values of the labels in order); fail where Prometheus would."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            assert sample.name.startswith("launcher_")
            assert sample.timestamp is None  # the collector refuses those
            key = sample.name.removeprefix("launcher_"), " ".join(sample.labels.values())
            assert key not in found
            found[key] = sample.value
    return found


@pytest.fixture
def ledger(scenario):
    with Store.open() as store:
        yield store


def record(store: Store, job: str, state: str, number: int = 1, **fields) -> None:
    times = {} if state == "running" else {"started_at": 100.0, "ended_at": 100.0 + 10 * number}
    store.record(attempt(launch(job, project="vision"), state, number=number, **{**times, **fields}))


def shown(scenario, *argv: str) -> Samples:
    return read(scenario.launcher("metrics", "--offline", *argv).out)


def test_apps_are_counted_by_state_and_final_ends_by_outcome(scenario, ledger):
    for job, state in (
        ("a", "succeeded"),
        ("b", "succeeded"),
        ("c", "failed"),
        ("d", "lost"),
        ("e", "running"),
    ):
        record(ledger, job, state)
    found = shown(scenario)
    apps = {key: value for key, value in found.items() if key[0] in ("apps", "attempts_total")}
    assert apps == {
        ("attempts_total", "vision default local_cwd succeeded"): 2,
        ("attempts_total", "vision default local_cwd failed"): 1,
        ("apps", "vision default local_cwd lost"): 1,
        ("apps", "vision default local_cwd running"): 1,
    }


def test_the_last_ended_attempt_of_a_job_has_outcome_times_and_exit_code(scenario, ledger):
    record(ledger, "train", "succeeded", 1)
    record(ledger, "train", "failed", 2, exit_code=3)
    record(ledger, "train", "running", 3)
    found = {name: value for (name, labels), value in shown(scenario).items() if "train" in labels}
    assert found == {
        "job_last_outcome": 1,
        "job_last_attempt": 2,
        "job_last_exit_code": 3,
        "job_last_end_timestamp_seconds": 120,
        "job_last_duration_seconds": 20,
        "job_last_success_timestamp_seconds": 110,
    }
    assert ("job_last_outcome", "vision default train failed") in shown(scenario)


def test_the_use_of_the_last_attempt_is_reported_for_each_role(scenario, ledger):
    used = {"main": Use((3.5, 0.5, 4096, "cgroup"), 2.0, 2), "side": Use((1.0, 0.0, 0, ""), 1.0)}
    record(ledger, "train", "succeeded", used=used)
    found = {key: value for key, value in shown(scenario).items() if "main" in key[1] or "side" in key[1]}
    job = "vision default train"
    assert found == {
        ("job_last_cpu_seconds", f"{job} main user"): 3.5,
        ("job_last_cpu_seconds", f"{job} main system"): 0.5,
        ("job_last_cpu_seconds", f"{job} side user"): 1,
        ("job_last_cpu_seconds", f"{job} side system"): 0,
        ("job_last_run_seconds", f"{job} main"): 2,
        ("job_last_run_seconds", f"{job} side"): 1,
        ("job_last_memory_bytes", f"{job} main cgroup"): 4096,
    }


def test_a_damaged_record_of_use_hides_no_other_metric(scenario, ledger):
    record(ledger, "train", "succeeded", used={"main": Use()})
    for damaged in ("{", "[]", '{"main": 3}', '{"main": {}}'):
        with sqlite3.connect(paths.ledger()) as db:
            db.execute("UPDATE attempts SET used = ?", (damaged,))
        db.close()
        assert shown(scenario)["job_last_attempt", "vision default train"] == 1


def test_the_page_lists_every_metric_with_its_type_labels_and_help(scenario, ledger):
    use = Use((1.0, 1.0, 1, "cgroup"), 1.0)
    record(ledger, "train", "failed", 1, exit_code=1, used={"main": use})
    record(ledger, "eval", "succeeded")
    record(ledger, "live", "running")
    families = text_string_to_metric_families(scenario.launcher("metrics", "--offline").out)
    listed = {
        name: [row[0], *re.findall(r"`(\w+)`", row[1]), row[2]]
        for name, row in keyed("metrics", "The metrics").items()
    }
    assert listed == {
        each.samples[0].name: [each.type, *each.samples[0].labels, each.documentation] for each in families
    }


def test_only_the_jobs_that_ended_last_have_metrics_of_their_own(scenario, ledger):
    for number, job in enumerate(("old", "newer", "newest"), 1):
        record(ledger, job, "succeeded", ended_at=1000.0 * number)
    found = shown(scenario, "--limit", "2")
    assert {labels.split()[2] for name, labels in found if name == "job_last_attempt"} == {"newer", "newest"}
    assert found["jobs_left_out", ""] == 1
    assert found["attempts_total", "vision default local_cwd succeeded"] == 3
    found = shown(scenario, "--since", "@2500")
    assert [labels.split()[2] for name, labels in found if name == "job_last_attempt"] == ["newest"]


def test_names_of_jobs_cannot_break_out_of_a_label_or_a_line(scenario, ledger):
    record(ledger, HOSTILE, "failed")
    record(ledger, "b\x1b[2J\r\u2028é", "failed")
    found = shown(scenario, "--label", f"user={HOSTILE}")
    names = {labels for name, labels in found if name == "job_last_attempt"}
    escaped = HOSTILE.replace("\n", "\\n")
    assert names == {f"vision default {escaped} {escaped}", f"vision default b\\x1b[2J\\r\\u2028é {escaped}"}


def test_the_file_appears_whole_and_readable_for_the_collector(scenario, ledger):
    record(ledger, "train", "succeeded")
    path = scenario.write("out/launcher.prom", "old\n")
    path.chmod(0o600)
    umask = os.umask(0o077)
    try:
        done = scenario.launcher("metrics", "--textfile", "out/launcher.prom", "--label", "user=me")
    finally:
        os.umask(umask)
    assert (done.out, done.err) == ("", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert read(path.read_text())["attempts_total", "vision default local_cwd succeeded me"] == 1
    assert os.listdir(path.parent) == ["launcher.prom"]


@pytest.mark.parametrize(("argv", "code", "said"), [
    (["--textfile", "m.txt"], 64, "name it `m.prom`"),
    (["--textfile", "."], 64, "`--textfile ./launcher.prom`"),
    (["--textfile", "none/m.prom"], 1, "cannot write none/m.prom: No such file or directory"),
    (["--label", "job_name=a"], 64, "launcher sets the label `job_name`"),
    (["--label", "a-b=c"], 64, "`a-b` is no name of a label"),
    (["--limit", "0"], 64, "expected at least 1"),
])  # fmt: skip
def test_a_wrong_request_is_refused_with_the_right_form(scenario, argv, code, said):
    assert said in scenario.launcher("metrics", *argv, code=code).err


def test_an_end_that_no_command_has_seen_is_recorded_and_counted(scenario):
    _, gate = scenario.running()
    found = read(scenario.launcher("metrics").out)
    assert found["apps", "default default local_cwd running"] == 1
    [supervisor] = scenario.supervisors().values()
    gate.open()
    assert gone([supervisor], timeout_s=60)
    assert shown(scenario)["apps", "default default local_cwd running"] == 1
    found = read(scenario.launcher("metrics").out)
    assert found["attempts_total", "default default local_cwd succeeded"] == 1


def test_the_metrics_show_the_share_of_the_machine_that_apps_hold(scenario, monkeypatch):
    monkeypatch.setenv("LAUNCHER_GPUS", "2")
    scenario.running(role="resource: {gpu: 1, cpu: 1}")
    found = shown(scenario)
    names = ("queue_apps", "queue_holders", "machine_gpus", "machine_held_gpus", "machine_held_cores")
    assert [found[name, ""] for name in names] == [0, 1, 2, 1, 1]
    scenario.cancel("job")
