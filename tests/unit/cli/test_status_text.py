"""`launcher status` of one app, as text."""

from launcher.cli.render.apps import status_text
from launcher.cli.render.values import used
from launcher.holding.use import Use
from launcher.state.records import AppRecord, ReplicaRecord


def test_the_address_of_a_running_replica_is_a_note_and_no_reason():
    app = AppRecord("local_docker", "default", "web-1-ypfhh", name="web", state="running")
    app.replicas = [ReplicaRecord("main", 0, "running", message="http at 127.0.0.1:49153")]
    heading, row = status_text(app).splitlines()[-2:]
    assert heading.split() == ["REPLICA", "STATE", "NOTE"]
    assert row.endswith("http at 127.0.0.1:49153")
    assert heading.index("NOTE") == row.index("http")


def test_the_cause_of_a_failed_or_waiting_replica_is_a_reason():
    app = AppRecord("local_docker", "default", "web-1-ypfhh", name="web", state="failed")
    app.replicas = [
        ReplicaRecord("main", 0, "failed", exit_code=137, message="killed: out of memory"),
        ReplicaRecord("main", 1, "pending", message="waits for a free GPU"),
    ]
    heading, *rows = status_text(app).splitlines()[-3:]
    assert heading.split() == ["REPLICA", "STATE", "EXIT", "WHY"]
    assert [row[heading.index("WHY") :] for row in rows] == ["killed: out of memory", "waits for a free GPU"]


def test_the_reason_of_an_end_is_wrapped_on_a_terminal_and_its_further_lines_are_below_the_first():
    message = "main/0 exited with 3: " + "word " * 20 + "end"
    app = AppRecord("local_cwd", "default", "web-1-ypfhh", name="web", state="failed", message=message)
    app.warnings = ["its log " + "cannot be read " * 5 + "now"]
    assert f"  why      {message}\n" in status_text(app)
    lines = status_text(app, columns=50).splitlines()
    assert all(len(line) <= 50 for line in lines)
    at = next(number for number, line in enumerate(lines) if line.startswith("  why"))
    reason, warning = "\n".join(lines[at:]).split("\n  warning  ")
    shown = [" ".join(each.removeprefix("  why").split()) for each in (reason, warning)]
    assert shown == [message, *app.warnings]
    assert {line[:11].strip() for line in lines[at + 1 :]} == {"", "warning"}


def use(source: str = "process", memory: int = 3 * 2**30 + 2**27, wall_s: float = 10.0) -> Use:
    return Use((17.0, 1.0, memory, source), wall_s=wall_s)


def test_the_use_of_an_ended_app_is_a_fact_and_a_column():
    app = AppRecord("local_cwd", "default", "train-1-ypfhh", name="train", state="succeeded")
    app.used = {"main": use()}
    app.replicas = [ReplicaRecord("main", 0, "succeeded", exit_code=0, use=use())]
    text = status_text(app)
    assert "\n  used  1.8 cores on average, 3.1 GiB (largest process)\n" in text
    assert text.splitlines()[-1].endswith("  1.8 cores, 3.1 GiB")


def test_a_run_that_was_too_short_to_be_timed_kept_no_number_of_cores_busy():
    short = Use((0.002, 0.001, 0, ""), wall_s=0.0003)
    app = AppRecord("local_cwd", "default", "train-1-ypfhh", name="train", state="succeeded")
    app.used = {"main": short}
    app.replicas = [ReplicaRecord("main", 0, "succeeded", exit_code=0, use=short)]
    text = status_text(app)
    assert "\n  used  3ms of CPU time\n" in text
    assert " core" not in text
    short.add(Use((1.0, 1.0, 0, ""), wall_s=4.0))
    assert used(short) == "0.5 cores on average"


def test_the_use_of_each_of_several_roles_has_a_line():
    app = AppRecord("local_cwd", "default", "train-1-ypfhh", name="train", state="succeeded")
    app.used = {"main": use("cgroup"), "ps": use("", 0), "": use("", 0, 0.0)}
    shown = status_text(app).split("used")[1].splitlines()
    assert [line.strip() for line in shown] == [
        "main: 1.8 cores on average, 3.1 GiB (peak)",
        "ps: 1.8 cores on average",
        "18s of CPU time by processes that outlived their replica",
    ]


def test_a_table_of_80_columns_has_no_room_for_a_column_of_use_beside_long_reasons():
    app = AppRecord("local_cwd", "default", "train-1-ypfhh", name="train", state="failed")
    app.replicas = [ReplicaRecord("main", 0, "failed", exit_code=1, message="word " * 12, use=use())]
    assert "USED" not in status_text(app)


def test_small_amounts_of_use_keep_a_decimal():
    assert used(Use((0.2, 0.0, 3 * 2**20 + 2**19, "samples"), wall_s=10.0)) == (
        "0.02 cores on average, 3.5 MiB (samples)"
    )
