"""The labels of one container describe its whole app."""

from dataclasses import replace

import pytest

from launcher.schedulers.docker import tombstones
from launcher.schedulers.docker.client.objects import Labelled
from launcher.schedulers.docker.labels import (
    RESERVATION_LABELS,
    app_labels,
    attempt_labels,
    read_labels,
    replica_labels,
)
from launcher.schedulers.docker.rules import options
from launcher.schedulers.docker.status import DockerAppView
from launcher.schedulers.owner import this_process
from launcher.specs import AppDef, Attempt, JobKey, RetryPolicy, Role, app_from_document
from launcher.specs.attempt import StoodOn
from launcher.specs.canonical import digest, document_of
from launcher.specs.secret import Secret

APP = AppDef(
    "train",
    [
        Role("chief", "i:1", entrypoint="serve", env={"KEY": Secret("env:API_KEY"), "N": "ü\n"}),
        Role("worker", "i:1", entrypoint="x", num_replicas=3, max_retries=2, retry_policy=RetryPolicy.ROLE),
    ],
    {"team": "blue"},
)
DOCUMENT = document_of(APP, {"timeout_s": 60, "grace_s": 2.5}, "local_docker")
ATTEMPT = Attempt(
    key=JobKey("demo", "prod", "train"), number=7, app_id="train-7-abcde", scheduler="local_docker",
    digest=digest(DOCUMENT), document=DOCUMENT, metadata={"team": "blue"}, origin="host/path",
    path="a b.launcher.yaml", commit="c0ffee-dirty", actor="me@here", action="rerun", plan_digest="p1",
    plan_id="p2", trigger_digest="tr1:x", created_at=1234567890.123456,
)  # fmt: skip


def facts(made):
    labels = read_labels(made)
    return (labels.attempt, labels.expected, labels.retries, labels.owner, labels.grace_s)


def test_all_fields_of_an_attempt_are_read_back_from_its_labels():
    owner = this_process()
    labels = read_labels(attempt_labels(ATTEMPT, owner) | replica_labels("worker", 2))
    assert labels.attempt == ATTEMPT
    assert labels.owner == owner
    assert labels.text("session") == "demo.prod"
    assert (labels.name, labels.role, labels.replica) == ("train", "worker", 2)
    assert (labels.expected, labels.timeout_s, labels.grace_s) == (4, 60, 2.5)
    assert labels.retries == {"chief": (0, "APPLICATION", 0), "worker": (2, "ROLE", 0)}
    assert labels.is_job


def test_edition_and_needs_are_read_back_from_labels():
    needs = (StoodOn("prepare", 3, 2, "prepare-3-abcde", "local_docker"),)
    repeated = replace(ATTEMPT, edition=5, needs=needs)
    made = attempt_labels(repeated)
    read, plain = read_labels(made), attempt_labels(ATTEMPT)
    assert read.attempt == repeated
    assert {name for name in made if name not in plain} == {"launcher.edition", "launcher.needs"}


@pytest.mark.parametrize("text", ["x", "[1]", "[[1]]", "{}", '[["a",1]]'])
def test_a_damaged_label_of_needs_is_read_as_no_needs(text):
    read = read_labels(attempt_labels(ATTEMPT) | {"launcher.needs": text, "launcher.edition": text})
    assert read.attempt == ATTEMPT


def test_a_tombstone_keeps_edition_and_needs():
    needs = (StoodOn("prepare", 3, 2, "prepare-3-abcde", "local_docker"),)
    ended = replace(ATTEMPT, edition=5, needs=needs, state="skipped", message="prepare failed", ended_at=9.0)
    view = DockerAppView(state="skipped", message="prepare failed", ended_at=9.0)
    labels = tombstones.body(attempt_labels(ended), view)
    found = tombstones.parse(Labelled(id="v", name="v", labels=labels))
    assert found.attempt() == ended


def test_the_retry_label_holds_a_pause_only_where_the_role_has_one():
    app = AppDef("a", [Role("r", "i:1", max_retries=1), Role("s", "i:1", max_retries=1, retry_delay=9)])
    labels = app_labels(app, {}, "a-1", "s", 0.0)
    assert labels["launcher.retries"] == '{"r":[1,"APPLICATION"],"s":[1,"APPLICATION",9]}'
    read = read_labels(labels)
    assert read.retries == {"r": (1, "APPLICATION", 0), "s": (1, "APPLICATION", 9)}


def test_an_app_without_a_job_is_read_back_whole():
    cfg = options().resolve({})
    labels = read_labels(app_labels(APP, cfg, "train-x", "mine", 5.5, None) | RESERVATION_LABELS)
    assert app_from_document(labels.document, labels.name, labels.metadata) == APP
    assert (labels.app_id, labels.text("session"), labels.created_at) == ("train-x", "mine", 5.5)
    assert (labels.timeout_s, labels.grace_s, labels.owner) == (None, 10.0, None)
    assert labels.attempt is None
    assert not labels.is_job


def test_labels_are_text_and_hold_no_value_of_a_secret(monkeypatch):
    monkeypatch.setenv("API_KEY", "s3cret")
    made = attempt_labels(ATTEMPT, this_process())
    assert all(isinstance(text, str) for pair in made.items() for text in pair)
    labels = read_labels(made)
    assert labels.document["roles"][0]["env"]["KEY"] == {"secret": "env:API_KEY"}


@pytest.mark.parametrize("labels", [{}, {"launcher.session": "x"}, {"other": "1"}, {"launcher.app-id": "x"}])
def test_the_labels_of_a_foreign_container_are_not_read_as_ours(labels):
    assert read_labels(labels) is None


@pytest.mark.parametrize(
    "name", ["document", "replicas", "retries", "owner", "metadata", "created-at", "attempt", "grace-s"]
)
@pytest.mark.parametrize("text", ["x", "[1]", "e30", "nan", "1e999"])
def test_a_damaged_label_reads_as_missing(name, text):
    sound, label = attempt_labels(ATTEMPT, this_process()), f"launcher.{name}"
    missing = {each: value for each, value in sound.items() if each != label}
    assert facts(sound | {label: text}) == facts(missing) != facts(sound)


def test_metadata_of_roles_that_json_cannot_hold_is_left_out():
    app = AppDef("a", [Role("r", "i", entrypoint="x", metadata={"hook": object()})])
    labels = read_labels(app_labels(app, {}, "a-1", "s", 0.0))
    assert labels.document["roles"][0].keys() == {"name", "entrypoint", "image"}
