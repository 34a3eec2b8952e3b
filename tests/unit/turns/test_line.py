"""The app whose turn it is, decided on values alone."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from launcher.turns.line import (
    APPS,
    CPU,
    GPUS,
    HOLDS,
    MACHINE,
    QUEUED,
    Ask,
    Limit,
    Ticket,
    after,
    decide,
    first,
    shares,
)

TWO_CORES = Limit(MACHINE, cpu=2, memory_mb=1000)


def ask(number: int = 10, app: str = "me", limits: Sequence[Limit] = (TWO_CORES,), **wanted: object) -> Ask:
    return Ask(app, number=number, table="t", limits=limits, **wanted)


def holder(app: str = "h", number: int = 1, **more: object) -> Ticket:
    return Ticket(app, number, state=HOLDS, **{"groups": [MACHINE], **more})


def queued(app: str, number: int, **more: object) -> Ticket:
    return Ticket(app, number, state=QUEUED, **{"groups": [MACHINE], **more})


def test_an_app_waits_for_its_share() -> None:
    held = holder(cpu=2)
    decision = decide(ask(cpu=1), [held])
    assert not decision.starts
    assert decision.watch == (held,)
    assert decision.lacks == (CPU, "")


STARTS = {
    "on an idle machine": (ask(cpu=1), [], True),
    "with the rest of the machine": (ask(cpu=1, memory_mb=500), [holder(cpu=1, memory_mb=500)], True),
    "not with more than the rest": (ask(cpu=1, memory_mb=501), [holder(cpu=1, memory_mb=500)], False),
    "alone, when it asks for more than the machine has": (ask(cpu=64), [], True),
    "not beside an app that holds a core": (ask(cpu=64), [holder(cpu=1)], False),
    "beside an app that holds no core": (ask(cpu=64), [holder(cpu=0, memory_mb=1)], True),
    "not beside an app that holds more than the machine has": (ask(cpu=1), [holder(cpu=64)], False),
    "before an app of the same number and a later name": (ask(5, "a", cpu=1), [queued("b", 5)], True),
    "not before an app of the same number and an earlier name": (ask(5, "b", cpu=1), [queued("a", 5)], False),
    "at once, without a turn": (ask(cpu=2, at_once=True), [holder(cpu=2), queued("a", 1)], True),
    "beside a ticket that names no amount": (ask(cpu=2), [holder()], True),
}


@pytest.mark.parametrize("when", STARTS)
def test_an_app_starts_only_in_its_turn_with_its_share(when: str) -> None:
    asked, line, starts = STARTS[when]
    assert decide(asked, line).starts is starts


def test_nothing_overtakes_the_first_in_line() -> None:
    big = queued("big", 5, cpu=2)
    decision = decide(ask(number=10, cpu=1), [holder(cpu=1), big])
    assert not decision.starts
    assert decision.watch == (big,)
    assert decide(ask(number=4, cpu=1), [holder(cpu=1), big]).starts


def test_each_app_in_line_watches_the_app_before_it() -> None:
    line = [queued("a", 3), queued("b", 4), queued("c", 12)]
    assert [each.app for each in decide(ask(cpu=1), line).watch] == ["b"]


def test_a_group_of_apps_has_its_own_limit() -> None:
    sweep = Limit("sweep", apps=2, label="sweep")
    two = [holder("a", groups=["sweep"]), holder("b", groups=["sweep"])]
    decision = decide(ask(limits=(TWO_CORES, sweep)), two)
    assert not decision.starts
    assert decision.lacks == (APPS, "sweep")
    assert decide(ask(limits=(TWO_CORES, sweep)), [*two[:1], holder("c", groups=["other"])]).starts


def test_a_ticket_that_names_no_amount_holds_no_gpu() -> None:
    assert decide(ask(gpus=1, devices=["0"], gpu_table="g"), [], [holder()]).dealt == ("0",)


def test_gpus_are_dealt_out_exclusively() -> None:
    held = holder(dealt=["0", "2"], gpus=2)
    free = decide(ask(gpus=2, devices=["0", "1", "2", "3"], gpu_table="g"), [], [held])
    assert free.dealt == ("1", "3")
    none = decide(ask(gpus=3, devices=["0", "1", "2", "3"], gpu_table="g"), [], [held])
    assert not none.starts
    assert none.watch == (held,)
    assert none.lacks == (GPUS, "")


def test_an_app_that_starts_at_once_gets_the_gpus_that_are_used_least() -> None:
    held = [holder("a", dealt=["0", "1"]), holder("b", dealt=["0"])]
    found = decide(ask(gpus=1, devices=["0", "1"], gpu_table="g", at_once=True), [], held)
    assert found.dealt == ("1",)


def test_the_line_for_gpus_reaches_over_state_folders() -> None:
    other = queued("elsewhere", 3, gpus=1)
    decision = decide(ask(gpus=1, devices=["0"], gpu_table="g"), [], [other])
    assert decision.watch == (other,)


def test_first_and_after_return_the_neighbours_in_line() -> None:
    line = [queued("b", 4), holder("h", 1), queued("a", 3)]
    assert first(line) is line[2]
    assert after(ask(3, "a"), line) is line[0]
    assert after(ask(4, "b"), line) is None
    assert first([]) is None


def test_an_ask_is_read_back_from_its_dict() -> None:
    made = ask(cpu=1.5, gpus=1, devices=["GPU-1"], gpu_table="g")
    again = Ask.from_dict(made.to_dict())
    assert again.to_dict() == made.to_dict()


@pytest.mark.parametrize(
    ("dealt", "wanted", "expected"),
    [(("0", "1", "4"), (2, 1), ["0,1", "4"]), (("3",), (0, 1), ["", "3"]), ((), (1,), [""])],
)
def test_dealt_gpus_are_shared_out_among_the_replicas(dealt, wanted, expected):
    assert shares(dealt, wanted) == expected


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_any_order_of_ends_runs_every_app_and_never_exceeds_the_machine(wanted, random):
    """A model of the table: apps of `(cores, GPUs)` on 2 cores and 2 GPUs; those of more than 2 run alone."""
    asks = [
        ask(number, f"app{number}", cpu=cpu, gpus=min(gpus, 2), devices=["0", "1"], gpu_table="g")
        for number, (cpu, gpus) in enumerate(wanted)
    ]
    waiting, holders, order = list(asks), list[Ticket](), list[int]()
    while waiting or holders:
        for each in list(waiting):
            line = [queued(other.app, other.number, cpu=other.cpu) for other in waiting if other is not each]
            gpu_line = [ticket for ticket in line if asks[ticket.number].gpus]
            gpu_holders = [held for held in holders if held.gpus]
            decision = decide(each, [*holders, *line], [*gpu_holders, *gpu_line] if each.gpus else [])
            if decision.starts:
                waiting.remove(each)
                order.append(each.number)
                holders.append(
                    holder(each.app, each.number, cpu=each.cpu, gpus=each.gpus, dealt=decision.dealt)
                )
        assert holders, "the machine is idle, and no app starts"
        dealt = [device for held in holders for device in held.dealt]
        assert len(dealt) == len(set(dealt))
        assert len(holders) == 1 or sum(held.cpu for held in holders) <= 2
        holders.remove(random.choice(holders))
    assert order == sorted(order)
