"""Which containers belong to an app: those that launcher made for its replicas, one each; their states."""

from collections.abc import Iterable

import pytest

from launcher.schedulers.docker.apps import own_containers
from launcher.schedulers.docker.client.objects import Container, Image, from_inspect, from_list
from launcher.schedulers.docker.names import container_name, mark_of

LABELS = {"launcher.app-id": "job-1-abcde", "launcher.role": "main", "launcher.part": "replica"}
LONG_ROLE = "r" * 60


def container(
    name: str, k: int = 0, *, created_at: float = 1.0, image: str = "committed", **labels: str
) -> Container:
    events = {
        **LABELS,
        "launcher.replica": str(k),
        **{f"launcher.{key}": text for key, text in labels.items()},
    }
    about = {"state": "running", "labels": events, "created_at": created_at, "image_id": image}
    return Container(id=f"id-{name}", name=name, **about)


class Images:
    """An engine with two images: one that `docker commit` made of a replica, and any other."""

    def image(self, name: str) -> Image:
        return Image(id=name, labels=LABELS if name == "committed" else {})


def owned(containers: Iterable[Container]) -> list[Container]:
    return own_containers(Images(), containers)


@pytest.mark.parametrize(("name", "belongs"), [
    ("job-1-abcde-main-0", True), ("job-1-abcde-main-0.cancelled", True),
    ("job-1-abcde-main-0.timed-out", True), ("job-1-abcde-main-0.stopped", True),
    ("job-1-abcde-main-0.other", False), ("job-1-abcde-main-0.stopped.stopped", False),
    ("job-1-abcde-main-1", False),  # the name of another replica
    ("job-1-abcde", False),  # that of the reservation
    ("quirky_turing", False),  # `docker run` of an image that `docker commit` made of the replica
])  # fmt: skip
def test_a_replica_is_known_by_its_name(name: str, belongs: bool) -> None:
    assert [each.name for each in owned([container(name)])] == ([name] if belongs else [])


def test_a_reservation_bears_the_app_id() -> None:
    marker = container("job-1-abcde", part="reservation")
    copy = container("quirky_turing", part="reservation")
    assert owned([marker, copy]) == [marker]


def test_a_name_that_had_to_be_cut_is_recomputed() -> None:
    name = container_name("job-1-abcde", LONG_ROLE, 3)
    assert owned([container(name, 3, role=LONG_ROLE), container(name, 3)])[0].name == name
    assert owned([container(name, 3)]) == []


@pytest.mark.parametrize("order", [1, -1])
def test_the_older_of_two_containers_for_one_replica_counts(order: int) -> None:
    """A stop renames the replica; a copy can then take the plain name."""
    ours = container("job-1-abcde-main-0.cancelled", created_at=1.0)
    copy = container("job-1-abcde-main-0", created_at=2.0)
    assert owned([ours, copy][::order]) == [ours]


def test_the_last_listed_of_two_containers_made_in_one_second_for_one_replica_counts() -> None:
    copy, ours = container("job-1-abcde-main-0"), container("mine", image="busybox")
    assert owned([copy, ours]) == [ours]


def test_replicas_of_several_apps_stay_apart_and_in_order() -> None:
    found = [container(f"app{n}-main-{k}", k, **{"app-id": f"app{n}"}) for n in (2, 1) for k in (1, 0)]
    assert owned(found) == found


@pytest.mark.parametrize("name", ["mine", "job-1-abcde-main-1", "job-1-abcde-main-0.other", "x.ended"])
def test_a_renamed_replica_is_known_by_the_labels_that_its_image_lacks(name: str) -> None:
    renamed = container(name, image="busybox")
    copy = container("copy", created_at=2.0)
    assert owned([copy, renamed]) == [renamed]


@pytest.mark.parametrize(
    ("name", "mark"),
    [("job-1-abcde-main-0.ended", ".ended"), ("mine.ended", ""), ("mine", ""), ("job-1-abcde-main-0", "")],
)
def test_a_name_that_a_user_chose_has_no_mark(name: str, mark: str) -> None:
    assert mark_of(container(name, image="busybox")) == mark


MEANING = [
    # state, live, ended, was started
    ("created", False, False, False),
    ("running", True, False, True),
    ("paused", True, False, True),
    ("restarting", True, False, True),
    ("removing", False, False, False),
    ("exited", False, True, True),
    ("dead", False, True, True),
    ("hibernating", True, False, True),
    ("", True, False, True),
]


def read_both_ways(state: str) -> list[Container]:
    entry = {"Id": "a", "Names": ["/a"], "State": state, "Status": "Exited (0) 1 second ago"}
    times = {"StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "2026-01-01T00:00:00Z"}
    looked = {"Id": "a", "Name": "/a", "State": {"Status": state, "ExitCode": 0, **times}}
    return [from_list(entry), from_inspect(looked)]


@pytest.mark.parametrize(("state", "live", "ended", "was_started"), MEANING)
def test_each_state_says_whether_a_container_is_live_has_ended_and_was_started(
    state: str, live: bool, ended: bool, was_started: bool
) -> None:
    for found in read_both_ways(state):
        assert (found.live, found.ended, found.was_started) == (live, ended, was_started)


@pytest.mark.parametrize("state", ["running", "hibernating", ""])
def test_a_live_container_has_no_end_and_no_exit_code(state: str) -> None:
    """The engine still reports the end and the exit code of the run before."""
    found = read_both_ways(state)[1]
    assert (found.ended_at, found.exit_code) == (None, None)


def test_the_list_of_containers_shows_the_exit_code_as_an_inspect_does() -> None:
    assert [found.exit_code for found in read_both_ways("exited")] == [0, 0]
