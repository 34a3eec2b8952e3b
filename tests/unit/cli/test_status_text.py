"""`launcher status` of one app, as text."""

from launcher.cli.render.status_text import status_text
from launcher.state.records import AppRecord, ReplicaRecord


def test_where_a_running_replica_is_reached_is_a_note_and_no_reason():
    app = AppRecord("local_docker", "default", "web-1-ypfhh", name="web", state="running")
    app.replicas = [ReplicaRecord("main", 0, "running", message="http at 127.0.0.1:49153")]
    heading, row = status_text(app).splitlines()[-2:]
    assert heading.split() == ["REPLICA", "STATE", "NOTE"]
    assert row.endswith("http at 127.0.0.1:49153")
    assert heading.index("NOTE") == row.index("http")


def test_why_a_replica_failed_or_waits_is_a_reason():
    app = AppRecord("local_docker", "default", "web-1-ypfhh", name="web", state="failed")
    app.replicas = [
        ReplicaRecord("main", 0, "failed", exit_code=137, message="killed: out of memory"),
        ReplicaRecord("main", 1, "pending", message="waits for a free GPU"),
    ]
    heading, *rows = status_text(app).splitlines()[-3:]
    assert heading.split() == ["REPLICA", "STATE", "EXIT", "WHY"]
    assert [row[heading.index("WHY") :] for row in rows] == ["killed: out of memory", "waits for a free GPU"]
