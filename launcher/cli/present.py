"""The apps there are as `list` and `status` show them: as recorded, and what is live as it is now."""

from __future__ import annotations

from launcher.cli.inventory import (
    DOCKER,
    LOCAL,
    Item,
    live_on_record,
    look,
    look_docker,
    recorded,
    settle,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def newest(
    limit: int | None, scheduler: str | None = None, *, warn: Callable[[str], None] | None = None
) -> list[Item]:
    """The newest apps, the newest first. Ends that nobody had noticed are recorded.

    Args:
        limit: how many; None for all.
        scheduler: only its apps.
        warn: told when an engine would have to be asked, and cannot be.
    """
    return _present(lambda: recorded(limit, scheduler), warn)


def live(*, warn: Callable[[str], None] | None = None) -> list[Item]:
    """The apps that run or are about to. Ends that nobody had noticed are recorded. `warn`: see `newest`."""
    return [item for item in _present(live_on_record, warn) if item.is_live]


def _present(read: Callable[[], list[Item]], warn: Callable[[str], None] | None) -> list[Item]:
    """What was read, with the live apps brought up to date by the records that their schedulers keep here.

    An engine is asked only where nobody keeps the record of an app: its watcher was killed, or is elsewhere.
    """
    items = read()
    if any(look(item) for item in items if item.is_live and item.scheduler in LOCAL):
        settle()
        items = read()
        for item in items:
            if item.is_live and item.scheduler in LOCAL:
                look(item)
    unkept = [item for item in items if item.is_live and item.scheduler == DOCKER and not look_docker(item)]
    if unkept:
        from launcher.cli.asked import update

        gone = update(unkept, warn)
        items = [item for item in items if item not in gone]
    return items
