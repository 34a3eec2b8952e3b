"""Read ledger, engines and checkouts for the planner. Changes nothing."""

from __future__ import annotations

import posixpath
from _thread import allocate_lock
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from launcher import git
from launcher.apply.engines import Engines
from launcher.dataclass import replace
from launcher.errors import LauncherError
from launcher.paths import token
from launcher.plan.snapshot import Snapshot
from launcher.schedulers.registry import SHARED_ENGINES
from launcher.specs.app import Role
from launcher.specs.attempt import ENDED_STATES, UNSTARTED_STATES, Attempt
from launcher.specs.inputs import NOTHING_SEEN, Seen, differing, recorded_paths
from launcher.specs.launch import JobKey, Launch
from launcher.specs.macros import substitute
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.workspace.seen import Command, SeenFiles

_SEEN_TO_END = ENDED_STATES - {"lost"}
_NEVER_RAN = UNSTARTED_STATES | {"skipped"}


def observe(
    store: Store,
    engines: Engines,
    launches: Sequence[Launch],
    *,
    keys: Sequence[JobKey] = (),
    schedulers: Iterable[str] = (),
    others: bool = False,
) -> Snapshot:
    """Read the attempts of these jobs, and of the jobs that they need, from ledger and engines.

    Only the engines involved are asked: those that the jobs name and those of their latest attempts. For
    other attempts the ledger is used, so that an engine that a plan does not need cannot make it fail.

    Args:
        keys, schedulers: further jobs, and names of engines to ask.
        others: ask for the live attempts of all other jobs, too.
    """
    engines.expect(launches)
    jobs = list(dict.fromkeys((*keys, *_keys(launches))))
    wanted = set(jobs)
    recorded = store.decisive(wanted, all_whole=False)
    latest = {each.key: each for each in sorted(recorded, key=lambda each: each.number)}
    unsettled = (attempt.scheduler for attempt in recorded if attempt.is_live)
    names = dict.fromkeys([*(each.scheduler for each in launches), *schedulers, *unsettled])
    # Other attempts are read from the engine once more: it knows manual changes, which no ledger holds; a
    # lost attempt may turn out to have ended, or to be live; and a row of the ledger may be damaged.
    successes = (each for each in latest.values() if each.state == "succeeded")
    settled = {each.app_id for each in successes if not each.unreadable}
    beside = store.live_besides(wanted)
    settled.update(() if others else beside)
    known = [*recorded, *store.by_app_ids(beside if others else ()).values()]
    held = _at_engines(store, engines, names, jobs, settled, known)
    snapshot = merge(
        ledger=known,
        engines=held,
        fingerprints={name: engines.get(name).fingerprint() for name in names},
        counts=store.counts(_documents(latest, held, wanted)),
        home=token(),
        shared=SHARED_ENGINES,
    )
    return _with_inputs(_without_lost(snapshot, launches, engines, names), launches)


def _keys(launches: Sequence[Launch]) -> Iterator[JobKey]:
    """Return the jobs, then the jobs that they need."""
    yield from (launch.key for launch in launches)
    yield from (key for launch in launches for key in launch.needed)


def _at_engines(
    store: Store,
    engines: Engines,
    names: Collection[str],
    jobs: Sequence[JobKey],
    settled: Collection[str],
    known: Iterable[Attempt],
) -> list[Attempt]:
    """Return the attempts that the named engines list, and live ones of `known` that are in no list: a row
    was lost, or a container was made meanwhile. Attempts of another engine are left out once they have ended.

    See `StagedScheduler.observe` for the other parameters.
    """
    by_id = {attempt.app_id: attempt for attempt in known if not attempt.unreadable}
    seen = [attempt for name in names for attempt in engines.get(name).observe(jobs, settled, by_id)]
    listed = {attempt.app_id for attempt in seen}
    live = (each for each in by_id.values() if each.is_live and each.scheduler in names)
    missed = (each for each in live if each.app_id not in listed)
    found = (engines.get(attempt.scheduler).attempt(attempt.app_id) for attempt in missed)
    seen += (attempt for attempt in found if attempt is not None)
    return [attempt for attempt in seen if not (attempt.elsewhere and _is_over(store, attempt))]


def _without_lost(
    snapshot: Snapshot, launches: Sequence[Launch], engines: Engines, asked: Collection[str]
) -> Snapshot:
    """Return the snapshot with the needs' `lost_outputs`, as found here and at the engines in `asked`."""
    needed = {key for launch in launches for key in launch.needed}
    by_scheduler: dict[str, list[Attempt]] = {}
    for attempt in (snapshot.ran[key] for key in needed if key in snapshot.ran):
        if attempt.state == "succeeded" and attempt.output:
            by_scheduler.setdefault(attempt.scheduler, []).append(attempt)
    lost: dict[str, str] = {}
    for name, successes in by_scheduler.items():
        scheduler = engines.get(name)
        if name in asked or not scheduler.shared_engine:
            folders = scheduler.output_folders
            gone = folders.lost(successes)
            lost |= {each.app_id: folders.elsewhere(each) for each in successes if each.app_id in gone}
    return snapshot.without_outputs(lost) if lost else snapshot


def merge(
    *,
    ledger: Iterable[Attempt],
    engines: Iterable[Attempt],
    fingerprints: Mapping[str, str],
    counts: Mapping[tuple[JobKey, str], int] | None = None,
    home: str = "",
    shared: Collection[str] = (),
) -> Snapshot:
    """Join the attempts of the ledger and of the engines into one snapshot.

    `fingerprints` names the schedulers whose engines were asked; for the others the ledger is authoritative.
    `counts` holds the ledger's number of attempts per (job, digest). Attempts that are not in the ledger yet
    (their apply was killed before it wrote the row) are added to it.
    """
    recorded = {(attempt.scheduler, attempt.app_id): attempt for attempt in ledger}
    held = {(attempt.scheduler, attempt.app_id): attempt for attempt in engines}
    attempts = [
        attempt
        for app in {**recorded, **held}
        if (attempt := _believed(recorded.get(app), held.get(app), app[0] in fingerprints))
    ]
    latest = _latest(attempts)
    unrecorded = (
        (attempt.key, attempt.digest)
        for attempt in latest.values()
        if (attempt.scheduler, attempt.app_id) not in recorded and attempt.state not in _NEVER_RAN
    )
    return Snapshot(
        latest=latest,
        ran=_latest(attempt for attempt in attempts if attempt.state not in _NEVER_RAN),
        succeeded=_latest(attempt for attempt in attempts if attempt.state == "succeeded"),
        live=tuple(sorted((a for a in attempts if a.is_live), key=lambda a: (a.key, a.number))),
        counts=Counter(counts or {}) + Counter(unrecorded),
        fingerprints=dict(fingerprints),
        home=home,
        shared=frozenset(shared),
    )


def _believed(ledger: Attempt | None, engine: Attempt | None, asked: bool) -> Attempt | None:
    """Choose the engine's record for a live attempt, the ledger's for an ended one; None if it never ran.

    The end of a lost attempt was not observed, so the engine decides about it too, as about one whose row in
    the ledger is damaged.
    """
    if engine is not None:
        if ledger is None or engine.is_live or ledger.unreadable or ledger.state not in _SEEN_TO_END:
            return engine
        return replace(ledger, drift=engine.drift)
    if ledger is None or not ledger.is_live or not asked:
        return ledger
    if ledger.state in _NEVER_RAN:
        return None  # it was removed before any replica started
    return replace(ledger, state="lost", owner="", message="nothing of it is left")


def _latest(attempts: Iterable[Attempt]) -> dict[JobKey, Attempt]:
    latest: dict[JobKey, Attempt] = {}
    for attempt in attempts:
        if attempt.key not in latest or attempt.number > latest[attempt.key].number:
            latest[attempt.key] = attempt
    return latest


def _is_over(store: Store, attempt: Attempt) -> bool:
    entry = store.app(attempt.app_id)
    return entry is not None and entry.state in ENDED_STATES


def _documents(
    latest: Mapping[JobKey, Attempt], seen: Sequence[Attempt], wanted: set[JobKey]
) -> list[tuple[JobKey, str]]:
    """Return (job, digest) of the latest attempts, in ledger or engines, that automatic re-runs may repeat.

    They never repeat a success, or an attempt that a process submits or holds.
    """
    held = {attempt.app_id for attempt in seen if attempt.is_live and attempt.owner}
    repeated = (
        each
        for each in (*latest.values(), *seen)
        if each.app_id not in held and each.state != "succeeded" and each.key in wanted
    )
    return list(dict.fromkeys((each.key, each.digest) for each in repeated))


def _with_inputs(snapshot: Snapshot, launches: Iterable[Launch]) -> Snapshot:
    """Return the snapshot with the recorded lists of changed input files, for the texts of reasons."""
    digests: set[str] = set()
    for launch in launches:
        for last in (snapshot.latest.get(launch.key), snapshot.ran.get(launch.key)):
            if last is not None and last.inputs and last.inputs != launch.inputs_digest:
                digests |= {last.inputs, launch.inputs_digest}
    if not digests:
        return snapshot
    from launcher.workspace.inputs import known

    lists = {digest: known(digest) for digest in digests}
    return replace(snapshot, inputs={digest: found for digest, found in lists.items() if found is not None})


_TIMES_DIFFER_S = 2.0
"""How far the time of a file may lie before the moment of its writing: some file systems count in twos."""
_MOST_SEARCHED = 16
"""The most folders of one PYTHONPATH that are searched."""


class CheckoutFiles:
    """Finds the checkout files that the jobs of one plan or apply see. Threads may share it."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._found: dict[str, SeenFiles] = {}
        self._tracked: dict[str, frozenset[str]] = {}
        self._places: dict[tuple[object, ...], tuple[str, str | None]] = {}
        self._lock = allocate_lock()

    def of(self, launch: Launch) -> Seen:
        """Return the checkout files that replicas of a job run; none for a job that runs elsewhere."""
        placed = ((role, *self._place(launch, role.image)) for role in launch.app.roles)
        commands = [
            _command(role, directory, where) for role, directory, where in placed if where is not None
        ]
        if not commands:
            return NOTHING_SEEN
        with self._lock:
            return self._below(launch.root).of(commands)

    def _place(self, launch: Launch, image: str) -> tuple[str, str | None]:
        """Return the folder of the job file, and the folder in which replicas of an image run."""
        key = (launch.scheduler, launch.root, launch.file, launch.workspace, repr(launch.cfg), image)
        if key not in self._places:
            directory, options = launch.directory, self._engines.options(launch)
            named = substitute(image, {"job.dir": directory})
            where = self._engines.get(launch.scheduler).checkout_folder(named, options)
            self._places[key] = directory, where
        return self._places[key]

    def edited(self, launch: Launch, attempt: Attempt, covered: Collection[str] = ()) -> tuple[str, ...]:
        """Return files that differ from those that an ended attempt of the job ran, by path below the root.

        A file counts as output of the attempt when it is no code, git does not track it and it was written
        while the attempt ran. One that was written while the attempt waited, and not since, is what it ran.

        Args:
            covered: paths for which `inputs` of the job decides.
        """
        if not attempt.seen or attempt.state not in ENDED_STATES:
            return ()
        now, files = self.of(launch), self._below(launch.root)
        if now.record == attempt.seen:
            return ()
        known = files.digests(path for path in recorded_paths(attempt.seen) if path not in now.record)
        begin, end = attempt.created_at, attempt.ended_at or attempt.created_at
        start = attempt.started_at or begin
        differs = differing(attempt.seen, now._replace(record={**known, **now.record}))
        found = [path for path in differs if not begin <= files.written(path) < start - _TIMES_DIFFER_S]
        written = {path for path in found if begin <= files.written(path) <= end and not files.is_code(path)}
        if written and launch.root not in self._tracked:
            repository = git.repository(launch.root)
            try:
                tracked = repository.tracked(["."]) if repository is not None else ()
            except LauncherError:
                tracked = ()
            self._tracked[launch.root] = frozenset(tracked)
        own = written - self._tracked[launch.root] if written else written
        return tuple(path for path in found if path not in own and path not in covered)

    def edited_of(
        self, launches: Iterable[Launch], attempts: Mapping[JobKey, Attempt]
    ) -> dict[JobKey, tuple[str, ...]]:
        """Return job → the files that differ from those that its attempt in `attempts` ran."""
        found = {
            launch.key: self.edited(launch, attempts[launch.key], _covered(launch))
            for launch in launches
            if launch.enabled and launch.key in attempts
        }
        return {key: files for key, files in found.items() if files}

    def _below(self, root: str) -> SeenFiles:
        if root not in self._found:
            from launcher.workspace.seen import SeenFiles  # only plans with such jobs need it

            self._found[root] = SeenFiles(root)
        return self._found[root]


def _covered(launch: Launch) -> set[str]:
    """Return the files that `inputs` of the job names, by path below the root."""
    if not launch.inputs_digest:
        return set()
    from launcher.workspace.inputs import known

    found, folder = known(launch.inputs_digest), posixpath.dirname(launch.file)
    return {posixpath.normpath(posixpath.join(folder, path)) for path in found.files} if found else set()


def _command(role: Role, directory: str, folder: str) -> Command:
    from launcher.workspace.seen import Command

    known = {"job.dir": directory, "img_root": folder}
    words = (substitute(str(word), known) for word in (role.entrypoint, *role.args))
    search = role.env.get("PYTHONPATH")
    folders = substitute(search, known).split(":")[:_MOST_SEARCHED] if type(search) is str else []
    return Command(tuple(words), folder, tuple(folders))
