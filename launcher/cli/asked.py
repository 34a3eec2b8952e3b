"""The apps of an engine that is asked itself, beside what the ledger knows of them."""

from __future__ import annotations

from launcher.cli.inventory import DOCKER, LIVE, Item, finer, of_entry, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launcher.schedulers.responses import ListAppResponse
    from launcher.state.records import AppRecord


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


def update(items: Sequence[Item], warn: Callable[[str], None] | None) -> Sequence[Item]:
    """Bring apps of Docker up to date that are live by their record, which nobody keeps.

    Ends are recorded. Returns those of `items` of which nothing ever ran.
    """
    from launcher.errors import LauncherError
    from launcher.schedulers.registry import get_scheduler
    from launcher.specs.status import is_terminal

    try:
        answers = {answer.app_id: answer for answer in get_scheduler(DOCKER, "").list()}
        if any(item.app_id not in answers or is_terminal(answers[item.app_id].state) for item in items):
            settle((DOCKER,))
    except LauncherError as error:
        if warn is not None:
            what = "1 app of local_docker is" if len(items) == 1 else f"{len(items)} apps of local_docker are"
            warn(f"{what} shown as last seen: {error}")
        return ()
    entries = _entries(DOCKER)
    gone = []
    for item in items:
        entry, answer = entries.get(item.handle), answers.get(item.app_id)
        if entry is not None and entry.state not in LIVE:
            item.take(of_entry(entry))
        elif answer is not None:
            item.state = finer(str(answer.state).lower(), item.state)
        elif entry is None and item.job is not None:
            gone.append(item)
    return gone


def _entries(scheduler: str) -> dict[str, AppRecord]:
    from launcher.state.store import Store

    with Store.open(readonly=True) as store:
        return {entry.handle: entry for entry in store.newest(-1) if entry.scheduler == scheduler}


def _has_news(answers: Sequence[ListAppResponse], entries: Mapping[str, AppRecord]) -> bool:
    """Whether the engine holds less live than the ledger thinks."""
    from launcher.specs.status import is_terminal

    going_on = {answer.app_id for answer in answers if not is_terminal(answer.state)}
    return any(entry.state in LIVE and entry.app_id not in going_on for entry in entries.values())


def _item(scheduler: str, answer: ListAppResponse) -> Item:
    session = answer.app_handle.partition("://")[2].partition("/")[0]
    item = Item(scheduler, session, answer.app_id)
    item.name, item.created_at = answer.name, answer.created_at
    return item
