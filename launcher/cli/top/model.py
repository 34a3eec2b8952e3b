"""The rows of the list of jobs, and their cells. Pure: it takes records, and reads nothing."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence

from launcher.cli.render.apps import ran_for
from launcher.cli.render.values import ago, shortened, state_cell, text_of
from launcher.dataclass import dataclass
from launcher.state.records import ENDED, LIVE, AppRecord
from launcher.state.rows import WORDS_OF
from launcher.text import fold, named, natural, width

Cell = tuple[str, str]  # text, style
PAGE = 200
"""How many ended apps are read at once."""
_MOST_PAGES = 20

VIEWS: Mapping[str, Collection[str]] = {"all": (), "live": LIVE, "failed": ("failed", "lost"), "ended": ENDED}
"""Name of a view → the states that it shows; () for all."""

HEADINGS = ("PROJECT", "JOB", "STATE", "TOOK", "WHEN", "WHY")
_PROJECT, _JOB, _TOOK, _WHEN, _WHY = 0, 1, 3, 4, 5
_YIELDS = {_WHEN: 60, _TOOK: 30, _PROJECT: 12}
"""Column → its limit: it is dropped while the room for reasons is below both their width and this."""
_GAP = 2
_RANK = {"running": 0, "created": 1, "reserved": 1, "queued": 2, "waiting": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects the apps with all the words, in one of the states of a view."""

    words: tuple[str, ...] = ()
    view: str = "all"

    @property
    def states(self) -> Collection[str]:
        return VIEWS[self.view]

    def takes(self, app: AppRecord) -> bool:
        """Whether the filter takes an app, by the rules of `Reader.ended`."""
        if self.states and app.state not in self.states:
            return False
        if not self.words:
            return True
        text = " ".join(str(getattr(app, name) or "") for name in WORDS_OF).lower()
        return all(word.lower() in text for word in self.words)


class Jobs:
    """The rows: live apps by project, target and state, then ended apps, the last one first.

    The apps that ended before `places` were read are in pages, of which few are kept.

    Attributes:
        live: the apps of each row; many apps of one job file in one state share a row.
        recent: the apps that have ended since `places` were read, the last one first.
        places: see `Reader.ended`.
    """

    def __init__(self) -> None:
        self.live: list[list[AppRecord]] = []
        self.recent: list[AppRecord] = []
        self.places = array("q")
        self.limits: Mapping[str, int] = {}
        self._pages: dict[int, Sequence[AppRecord]] = {}

    def show(
        self, live: Sequence[AppRecord], recent: Sequence[AppRecord], chosen: Filter, *, in_full: bool
    ) -> None:
        """Take the present apps. `in_full`: the many apps of one job file have a row each."""
        shown = sorted(filter(chosen.takes, live), key=_order)
        self.live = fold(
            shown,
            family_of=lambda app: None if in_full else app.job_file,
            kind_of=lambda app: (app.state, app.session),
            matters=lambda app: False,
        )
        self.recent = [*filter(chosen.takes, recent)]

    def find(self, places: array[int]) -> None:
        """Take the places of ended apps, whose pages are not read yet."""
        self.places = places
        self._pages.clear()

    def fill(self, page: int, apps: Sequence[AppRecord]) -> None:
        while len(self._pages) >= _MOST_PAGES:
            self._pages.pop(next(iter(self._pages)))
        self._pages[page] = apps

    def __len__(self) -> int:
        return len(self.live) + len(self.recent) + len(self.places)

    def row(self, number: int) -> Sequence[AppRecord]:
        """The apps of a row; () when its page is not known, or the app was removed."""
        if number < len(self.live):
            return self.live[number]
        number -= len(self.live)
        if number < len(self.recent):
            return self.recent[number : number + 1]
        page, at = divmod(number - len(self.recent), PAGE)
        return self._pages.get(page, ())[at : at + 1]

    def unknown(self, first: int, last: int) -> Iterator[tuple[int, Sequence[int]]]:
        """The numbers of the pages that rows `first` to `last` lack, with their places."""
        above = len(self.live) + len(self.recent)
        if last < above or not self.places:
            return
        for page in range(max(0, first - above) // PAGE, (last - above) // PAGE + 1):
            if page not in self._pages and page * PAGE < len(self.places):
                yield page, self.places[page * PAGE : (page + 1) * PAGE]

    def loaded(self) -> Iterator[Sequence[AppRecord]]:
        """The rows that are known."""
        yield from self.live
        yield from ([app] for app in self.recent)
        yield from ([app] for page in self._pages.values() for app in page)

    def index(self, handle: str) -> int | None:
        """Return the row of an app, among the known rows."""
        for number, apps in enumerate(self.live):
            if any(app.handle == handle for app in apps):
                return number
        for number, app in enumerate(self.recent):
            if app.handle == handle:
                return len(self.live) + number
        for page, known in self._pages.items():
            for at, app in enumerate(known):
                if app.handle == handle:
                    return len(self.live) + len(self.recent) + page * PAGE + at
        return None


def _order(app: AppRecord) -> tuple[object, ...]:
    where = (app.project or app.session, app.target or "")
    return where, _RANK.get(app.state, 4), app.created_at or 0.0, natural(app.name or app.app_id)


def name_of(app: AppRecord) -> str:
    """Return `train@3`, the form that commands take; the id for an app without a job."""
    return f"{app.job}@{app.number}" if app.job else app.app_id


def cells(apps: Sequence[AppRecord], limits: Mapping[str, int], now: float) -> list[Cell]:
    """The cells of a row, on one line each, escaped.

    Args:
        limits: app id → how often the app may restart.
    """
    app, is_one = apps[0], len(apps) == 1
    made = [
        (app.session, ""),
        (named([name_of(each) for each in apps]), "bold"),
        state_cell(app.state),
        (ran_for(app, now) if is_one else "", ""),
        (ago(app.created_at if app.is_live else app.ended_at, now), "dim"),
        (_why(app, limits.get(app.app_id, 0)), ""),
    ]
    return [(text_of(text), style) for text, style in made]


def _why(app: AppRecord, limit: int) -> str:
    if app.is_live and app.num_restarts:
        again = f"restart {app.num_restarts}" + (f" of {limit}" if limit >= app.num_restarts else "")
        return f"{again}: {app.message}" if app.message else again
    return app.message


def restart_limit(document: Mapping[str, object]) -> int:
    """The number of restarts of an app as a whole; 0 where its roles or replicas restart on their own."""
    roles = document.get("roles", ())
    assert isinstance(roles, Sequence)
    alone = len(roles) == 1 and roles[0].get("num_replicas", 1) == 1
    if not alone and any(role.get("retry_policy", "APPLICATION") != "APPLICATION" for role in roles):
        return 0
    return max((role.get("max_retries", 0) for role in roles), default=0)


class Layout:
    """The widths of columns. They grow with the rows shown, so that columns do not jump during scrolling.

    Args:
        columns: the columns of the screen.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.widths = [len(heading) for heading in HEADINGS]
        self._projects: set[str] = set()

    def fit(self, rows: Iterator[list[Cell]]) -> None:
        """Widen the columns so that these rows fit."""
        for row in rows:
            self._projects.add(row[_PROJECT][0])
            self.widths = [max(known, width(text)) for known, (text, _) in zip(self.widths, row, strict=True)]

    @property
    def only_project(self) -> str:
        return next(iter(self._projects)) if len(self._projects) == 1 else ""

    def shown(self) -> list[tuple[int, int]]:
        """The columns that are shown, with their widths; reasons get all the room that is left."""
        sizes = dict(enumerate(self.widths))
        sizes[_PROJECT] = min(sizes[_PROJECT], self.columns // 5)
        sizes[_JOB] = min(sizes[_JOB], self.columns // 3)
        if len(self._projects) < 2:
            del sizes[_PROJECT]
        reason = sizes.pop(_WHY)
        for column, most in _YIELDS.items():
            if self._left(sizes) < min(reason, most):
                sizes.pop(column, None)
        return [*sizes.items(), (_WHY, max(0, self._left(sizes)))]

    def _left(self, sizes: Mapping[int, int]) -> int:
        return self.columns - sum(sizes.values()) - _GAP * len(sizes)

    def line(self, row: Sequence[Cell]) -> Iterator[Cell]:
        """Return the cells of a row as shown, with the spaces between them."""
        for column, size in self.shown():
            text = shortened(row[column][0], size)
            yield text, row[column][1]
            yield " " * (size - width(text) + _GAP * (column != _WHY)), ""
