"""The apps of an engine that is asked itself, beside what the ledger knows of them."""

from __future__ import annotations

from launcher.cli.inventory import LIVE, Item, finer, of_entry, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launcher.schedulers.responses import ListAppResponse
    from launcher.state.rows import Entry


def asked(scheduler: str) -> list[Item]:
    """Every app that the engine or the ledger knows, the newest first. Ends that are news are recorded."""
    from launcher.schedulers.registry import get_scheduler

    answers = get_scheduler(scheduler, "").list()
    entries = _entries(scheduler)
    if _has_news(answers, entries):
        settle((scheduler,))
        entries = _entries(scheduler)
    items = {handle: of_entry(entry) for handle, entry in entries.items()}
    for answer in answers:
        handle = f"{scheduler}://{answer.app_handle.partition('://')[2]}"
        item = items.setdefault(handle, _item(scheduler, answer))
        item.state = finer(str(answer.state).lower(), item.state)
    return sorted(items.values(), key=lambda item: item.created_at or 0.0, reverse=True)


def _entries(scheduler: str) -> dict[str, Entry]:
    from launcher.state.ledger import Ledger

    with Ledger.open(readonly=True) as ledger:
        return {entry.handle: entry for entry in ledger.newest(-1) if entry.scheduler == scheduler}


def _has_news(answers: Sequence[ListAppResponse], entries: Mapping[str, Entry]) -> bool:
    """Whether the engine holds less live than the ledger thinks."""
    from launcher.specs.status import is_terminal

    going_on = {answer.app_id for answer in answers if not is_terminal(answer.state)}
    return any(entry.state in LIVE and entry.app_id not in going_on for entry in entries.values())


def _item(scheduler: str, answer: ListAppResponse) -> Item:
    session = answer.app_handle.partition("://")[2].partition("/")[0]
    item = Item(scheduler, session, answer.app_id)
    item.name, item.created_at = answer.name, answer.created_at
    return item
