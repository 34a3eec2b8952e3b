"""Open the store for schedulers and the layers above: lost rows of apps are rebuilt by the schedulers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from launcher.state.reader import Reader
    from launcher.state.records import AppRecord
    from launcher.state.store import Store


def open_reader() -> Reader:
    """The store in LAUNCHER_HOME, for reading records; see `open_store`."""
    from launcher.state.reader import Reader

    return Reader.open(readonly=True, source=every_app)


def open_store(*, readonly: bool = False, durable: bool = True) -> Store:
    """The store in LAUNCHER_HOME; see `Store.open`.

    A new store, or one of an older version, gets a row for every app that a scheduler has a record of.
    """
    from launcher.state.store import Store

    return Store.open(readonly=readonly, durable=durable, source=every_app)


def every_app() -> Iterator[tuple[AppRecord, bool]]:
    """The apps that schedulers have records of, each with whether its end is still to be recorded."""
    from os.path import isdir, join

    from launcher.paths import home
    from launcher.schedulers.registry import APP_SOURCES, imported

    for folder, source in APP_SOURCES.items():
        if isdir(join(home(), folder)):
            yield from imported(source)()
