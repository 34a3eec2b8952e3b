"""The messages of `list`, `status` and `queue` about apps in line."""

import pytest

from launcher.inventory.turns import Tables, ordinal
from launcher.turns.line import APPS, CPU, GPUS, HOLDS, MACHINE, MEMORY, QUEUED, Ticket, amount

SWEEP = "matrix default/default/sweep"


def ticket(app: str, number: int, state: str = QUEUED, **more: object) -> Ticket:
    return Ticket(app, number, state=state, **{"groups": (MACHINE,), **more})


def why(own: list[Ticket], gpus: list[Ticket] | None = None) -> dict[str, str]:
    return {each.ticket.app: each.why for each in Tables("table", "gpus", own, gpus or []).line}


def test_the_first_app_in_line_waits_for_the_amount_that_is_not_free() -> None:
    a = ticket("a-1", 1, HOLDS, cpu=1)
    b = ticket("b-1", 2, HOLDS, cpu=1, memory_mb=512)
    c = ticket("c-1", 3, cpu=2, memory_mb=100, lacks=(CPU, ""))
    d = ticket("d-1", 4, cpu=0.5)
    e = ticket("e-1", 5, memory_mb=2048)
    assert why([a, b, c, d, e]) == {
        "c-1": "1st in line for 2 cores held by a-1, b-1",
        "d-1": "2nd in line for 0.5 cores held by a-1, b-1",
        "e-1": "3rd in line for 2 GiB of memory held by b-1",
    }


def test_a_message_names_two_holders_and_counts_the_others() -> None:
    holders = [ticket(f"a-{n}", n, HOLDS, cpu=1) for n in range(5)]
    last = ticket("z-1", 9, cpu=1, lacks=(CPU, ""))
    assert why([*holders, last]) == {"z-1": "1st in line for 1 core held by a-0, a-1 and 3 more"}


def test_jobs_of_a_matrix_wait_for_one_of_its_places() -> None:
    groups = {"groups": (MACHINE, SWEEP), "cpu": 1}
    holders = [ticket(f"sweep-{n}", n, HOLDS, **groups) for n in range(4)]
    first = ticket("sweep-4", 4, lacks=(APPS, "sweep"), places="4", **groups)
    second = ticket("sweep-5", 5, **groups)
    other = ticket("other-1", 6, cpu=1)
    assert why([*holders, first, second, other]) == {
        "sweep-4": "1st in line for one of 4 places of sweep",
        "sweep-5": "2nd in line for one of 4 places of sweep",
        "other-1": "3rd in line for 1 core held by sweep-0, sweep-1 and 2 more",
    }


def test_a_place_beyond_the_limit_does_not_count() -> None:
    groups = {"groups": (MACHINE, SWEEP), "cpu": 1}
    holders = [ticket(f"sweep-{n}", n, HOLDS, **groups) for n in range(3)]
    behind = ticket("sweep-5", 5, **groups)
    said = {"1": "the place", "2": "one of 2 places", "": "a place"}  # an older version records no number
    for places, words in said.items():
        first = ticket("sweep-4", 4, lacks=(APPS, "sweep"), places=places, **groups)
        assert why([*holders, first, behind]) == {
            "sweep-4": f"1st in line for {words} of sweep",
            "sweep-5": f"2nd in line for {words} of sweep",
        }


def test_jobs_of_an_apply_wait_for_one_of_its_places() -> None:
    groups = {"groups": (MACHINE, "apply 7f3a")}
    a = ticket("a-1", 1, HOLDS, **groups)
    b = ticket("b-1", 2, lacks=(APPS, "this apply"), **groups)
    c = ticket("c-1", 3, **groups)
    assert why([a, b, c]) == {
        "b-1": "1st in line for the place of this apply",
        "c-1": "2nd in line for the place of this apply",
    }
    assert why([a, c]) == {"c-1": "1st in line for the place of this apply"}


def test_cores_that_a_project_may_use_are_held_by_its_own_apps() -> None:
    a = ticket("a-1", 1, HOLDS, cpu=1, groups=(MACHINE, "project vision"))
    b = ticket("b-1", 2, HOLDS, cpu=1)
    c = ticket("c-1", 3, cpu=1, groups=(MACHINE, "project vision"), lacks=(CPU, "project vision"))
    assert why([a, b, c]) == {"c-1": "1st in line for 1 core held by a-1"}


def test_gpus_are_held_by_apps_of_every_table() -> None:
    elsewhere = ticket("other-1", 1, HOLDS, cpu=2, gpus=1, dealt=("0",))
    ahead = ticket("other-2", 2, gpus=1, lacks=(GPUS, ""))
    mine = ticket("mine-1", 3, cpu=1, gpus=1)
    plain = ticket("plain-1", 4, cpu=1)
    assert why([mine, plain], [elsewhere, ahead, mine]) == {
        "other-2": "1st in line for 1 GPU held by other-1",
        "mine-1": "2nd in line for 1 GPU held by other-1",
        "plain-1": "2nd in line for 1 core, behind mine-1",
    }


def test_an_app_in_both_tables_counts_once() -> None:
    both = ticket("a-1", 1, HOLDS, gpus=2, dealt=("0", "1"))
    tables = Tables("table", "gpus", [both], [both, ticket("b-1", 2, HOLDS, gpus=1)])
    assert [each.app for each in tables.holders] == ["a-1", "b-1"]
    assert [tables.is_elsewhere(each) for each in tables.holders] == [False, True]


@pytest.mark.parametrize(("number", "text"), [
    (1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"),
    (113, "113th"),
])  # fmt: skip
def test_positions_are_shown_as_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(("resource", "value", "text"), [
    (CPU, 1, "1 core"), (CPU, 2.5, "2.5 cores"), (GPUS, 2, "2 GPUs"), (MEMORY, 512, "512 MiB of memory"),
    (MEMORY, 1536, "1.5 GiB of memory"), (MEMORY, 16384, "16 GiB of memory"),
])  # fmt: skip
def test_amounts_are_shown_with_their_units(resource: str, value: float, text: str) -> None:
    assert amount(resource, value) == text
