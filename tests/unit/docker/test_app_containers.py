"""Which containers belong to an app: those under the names of its replicas, one each."""

from __future__ import annotations

import pytest

from launcher.schedulers.docker.apps import own_containers
from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.names import container_name

LABELS = {"launcher.app-id": "job-1-abcde", "launcher.role": "main", "launcher.part": "replica"}
LONG_ROLE = "r" * 60


def container(name: str, k: int = 0, *, created_at: float = 1.0, **labels: str) -> Container:
    told = {**LABELS, "launcher.replica": str(k), **{f"launcher.{key}": text for key, text in labels.items()}}
    return Container(id=f"id-{name}", name=name, state="running", labels=told, created_at=created_at)


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("job-1-abcde-main-0", True),
        ("job-1-abcde-main-0.cancelled", True),
        ("job-1-abcde-main-0.timed-out", True),
        ("job-1-abcde-main-0.stopped", True),
        ("job-1-abcde-main-0.other", False),
        ("job-1-abcde-main-0.stopped.stopped", False),
        ("job-1-abcde-main-1", False),  # the name of another replica
        ("job-1-abcde", False),  # that of the reservation
        ("quirky_turing", False),  # `docker run` of an image that `docker commit` made of the replica
    ],
)
def test_a_replica_is_known_by_its_name(name: str, belongs: bool) -> None:
    assert [each.name for each in own_containers([container(name)])] == ([name] if belongs else [])


def test_a_reservation_bears_the_app_id() -> None:
    marker = container("job-1-abcde", part="reservation")
    copy = container("quirky_turing", part="reservation")
    assert own_containers([marker, copy]) == [marker]


def test_a_name_that_had_to_be_cut_is_recomputed() -> None:
    name = container_name("job-1-abcde", LONG_ROLE, 3)
    assert own_containers([container(name, 3, role=LONG_ROLE), container(name, 3)])[0].name == name
    assert own_containers([container(name, 3)]) == []


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_for_one_replica_the_older_one_counts(order: int) -> None:
    """A stop renames the replica; a copy can then take the plain name."""
    ours = container("job-1-abcde-main-0.cancelled", created_at=1.0)
    copy = container("job-1-abcde-main-0", created_at=2.0)
    assert own_containers([ours, copy][::order]) == [ours]


def test_replicas_of_several_apps_stay_apart_and_in_order() -> None:
    found = [container(f"app{n}-main-{k}", k, **{"app-id": f"app{n}"}) for n in (2, 1) for k in (1, 0)]
    assert own_containers(found) == found
