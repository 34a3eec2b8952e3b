"""Watch one app: do the work that no engine does, and record the end of the app.

It restarts by policy, keeps time limits, starts roles when their conditions hold, and stops services. All of
its state is in the journal and at the engine: each step reads both, decides, does one action, and reads
again, until there is nothing to do but to wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from launcher.dataclass import replace
from launcher.holding.hold import AGAIN_S, decide
from launcher.schedulers.docker import record
from launcher.schedulers.docker.apps import inspect_app
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineSilent, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.client.wire import GIVE_UP_S, LONGEST_PAUSE_S, SHORTEST_PAUSE_S, Patience
from launcher.schedulers.docker.facts import containers_to_events, has_begun, open_app
from launcher.schedulers.docker.journal import HeldApp, Journal
from launcher.schedulers.docker.labels import APP_ID, SHARE, Labels
from launcher.schedulers.docker.record import Recorder, RecordLock
from launcher.schedulers.docker.status import view
from launcher.schedulers.docker.watching import ends
from launcher.schedulers.docker.watching.actions import Actions
from launcher.schedulers.docker.watching.observer import AppObserver, EventQueue, SharedStream
from launcher.schedulers.docker.watching.samples import AppSamples
from launcher.schedulers.docker.watching.services import Rest, WatchingProcess
from launcher.schedulers.loop import SteadyClock

if TYPE_CHECKING:
    from launcher.schedulers.docker.watching.hold import Hold
    from launcher.schedulers.docker.watching.probes import Prober
    from launcher.turns.table import Place

_LATE_S = 0.5


class WatchedApp:
    """Watches one app, from the client's first message to the end of the app.

    Args:
        order: the first message; see `WatcherClient`.
        bells: the descriptors of the bells of the app's place, if the client has taken one.
        wake: schedules a call of `step`. May be called from any thread.
    """

    def __init__(
        self,
        process: WatchingProcess,
        stream: SharedStream,
        lock: RecordLock,
        order: Mapping[str, Any],
        bells: Sequence[int],
        wake: Callable[[], None],
    ) -> None:
        self.lock = lock
        self.place = _place_of(order, bells)
        self._is_placed_here = "ask" in order
        self.app_id: str = order["app_id"]
        self._process = process
        self._engine = process.engine
        self._stream = stream
        self._wake = wake
        self._app_dir = lock.app_dir
        self._follows_client: bool = order["attached"]
        self._resumed: bool = order["resumed"]
        self._messages: SimpleQueue[Mapping[str, Any]] = SimpleQueue()
        self._events = EventQueue(self._app_dir)
        self._observer = AppObserver(self._engine, self.app_id, self._events)
        self._prober: Prober | None = None  # only apps with probes have one
        self._samples = AppSamples(process.sampler)
        self._hold: Hold | None = None
        self._found: list[Container] = []
        self._recorder = Recorder(self._app_dir, self._write_end)
        self._actions = Actions(self._engine, self._app_dir, self._recorder)
        self.since: float = (self._resumed and self._recorder.journal().app.started_at) or order["at"]
        """The time from which on the events of the app count, in epoch seconds."""
        self._began_at = time.time()
        self._clock = SteadyClock()
        self._is_submitted = self._resumed
        self._is_going = False
        self._is_connected = False
        self._rest: Rest | None = None
        self._pause_s = SHORTEST_PAUSE_S
        self._failed_since: float | None = None

    def taken(self) -> dict[str, Any]:
        """The fields of the answer with the place that this process took for a client on another machine."""
        if self.place is None or not self._is_placed_here:
            return {}
        from launcher.schedulers.docker import share

        return {"turn": share.to_json(self.place)}

    def put(self, item: Event | EngineError | Mapping[str, Any]) -> None:
        """Queue an event of the app, the error that ended the stream, or a message of its client.

        May be called from any thread; a step follows.
        """
        if isinstance(item, Mapping):
            self._messages.put(item)
        else:
            self._events.put(item)
            if self._hold is not None and isinstance(item, Event):
                self._hold.take(item)
        self._wake()

    def step(self) -> Rest | None:
        """Go on as far as possible; returns the conditions of the next step, None when the watch is over."""
        if not self._read_messages():
            return None
        if not self._is_submitted:
            return Rest()
        if self._hold is not None:
            held = self._hold_on(self._hold)
            if held is not True:
                return held or None
            self._hold, self._clock = None, SteadyClock()  # the app starts by the clock as it is set now
        return self._follow()

    def close(self) -> None:
        """Give up the app's share, and end its probes and samples. A later step does nothing."""
        self._samples.close()
        if self._prober is not None:
            self._prober.close()
        if self.place is not None:
            self.place.leave()

    # -- its client ----------------------------------------------------------------------------------------

    def _read_messages(self) -> bool:
        """Obey the client's messages; False when the app was removed."""
        while True:
            try:
                message = self._messages.get_nowait()
            except Empty:
                return True
            op = message["op"]
            if not self._is_submitted:
                if not self._submit(op, message):
                    return False
            elif op == "leave":
                self._follows_client = False
            elif op == "close":
                self._events.closed = True
            if op == "end" and self._follows_client:
                self._events.orphaned = True

    def _submit(self, op: str, message: Mapping[str, Any]) -> bool:
        """Take a message of the submission; False when the app was removed.

        The submission is over when the client has started the app, left it waiting, or gone.
        """
        if op == "go":
            self._is_going = True
            if "declared" in message:  # the client cannot write to this record
                record.begin(self._app_dir, message["declared"], "starting")
        elif op == "close":
            self._events.closed = True
        elif op == "abort":
            self._remove_app(force=True)
            return False
        elif op == "forget":  # another watcher has the app by now, or a client hands it to this process again
            if self.place is not None and not self._is_placed_here:
                self.place.release()
            return False
        elif op == "wait":
            from launcher.schedulers.docker.watching.hold import Hold

            self._hold = Hold(self._process, self.lock, self.app_id, message, self.place, self._wake)
            self._is_submitted = True
        elif op in ("started", "end"):
            is_begun = (
                op == "started" or self._is_going or self._recorder.journal().app.started_at is not None
            )
            if self.lock.is_valid and not is_begun:
                is_begun = not self._remove_app(force=False)
            if not (is_begun and self.lock.is_valid):
                return False
            self._is_submitted = True  # the watch starts the rest
            if self._recorder.journal().app.started_at is None:  # the disk was full
                self._recorder.append({"e": "starting"})
        return True

    def _why_orphaned(self) -> str:
        return "its Runner was closed" if self._events.closed else "its parent process ended"

    def _remove_app(self, *, force: bool) -> bool:
        """Remove the app; False when it was started, so that it must stay."""
        if not force:  # its client was killed: the engine may still be creating containers
            if not ends.remove_objects(self._engine, self.app_id, force=False):
                return False
            time.sleep(_LATE_S)  # this process holds the lock meanwhile: no client recreates the app
        return not self.lock.is_valid or ends.remove_app(self._engine, self.app_id, force=force)

    # -- while it waits ------------------------------------------------------------------------------------

    def _hold_on(self, hold: Hold) -> Rest | bool:
        """Go on with an app that waits: True when it is to run, False when it has ended."""
        if self._stream.is_open and not self._is_connected:
            self._is_connected = True
            hold.look()
        elif not self._stream.is_open:
            self._is_connected = False
        orphaned = self._why_orphaned() if self._events.orphaned else ""
        held = hold.step(orphaned)
        if held is True:
            self._is_connected = False
            if self._recorder.journal().app.started_at is None:  # the disk was full
                self._recorder.append({"e": "starting"})
        return held

    # -- while it runs -------------------------------------------------------------------------------------

    def _follow(self) -> Rest | None:
        """Act until there is nothing to do but to wait. A refused request is made again."""
        while self.lock.is_valid:
            if not self._stream.is_open:
                return Rest()
            self._rest = None
            try:
                self._connect()
                self._events.drain()
                if self._has_ended():
                    return None
            except EngineError as error:
                return self._pause(error)
            self._pause_s, self._failed_since = SHORTEST_PAUSE_S, None
            if self._rest is not None:
                return self._rest
        return None

    def _connect(self) -> None:
        """Begin with all events since the app was started.

        A container may have been stopped while this process loaded its modules, or while no watcher lived.
        """
        if self._is_connected:
            return
        started_at, is_first, past = self._engine.started_at(), self._events.connected_at == 0.0, []
        if is_first and self.since < (self._stream.since or 0.0):
            past = self._engine.past_events(f"{APP_ID}={self.app_id}", self.since)
        self._events.connected(started_at, self.since if is_first and not self._resumed else None)
        self._events.replay(past)
        self._is_connected = True

    def _pause(self, error: EngineError) -> Rest:
        """Rest after a failed request; raises the error when requests have failed for too long."""
        now = time.monotonic()
        self._failed_since = self._failed_since or now
        if now - self._failed_since > GIVE_UP_S:
            raise error
        self._actions.forget()
        if isinstance(error, EngineUnreachable):
            self._is_connected = False
            self._events.disconnected(error)
        if not isinstance(error, EngineSilent):
            self._observer.invalidate()
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, LONGEST_PAUSE_S)
        return Rest(pause_s)

    def _has_ended(self) -> bool:
        """Read the app once, record what is new, and carry out what follows; True when it has ended.

        The state machine is rebuilt each time: clients add to the record, too, and an engine that comes
        back shows the events of the meantime.
        """
        self._found = found = self._observer.containers()
        journal = self._recorder.journal()
        if journal.outcome is not None or not (found or journal.events):
            return True
        labels = self._labels()
        if labels.order and journal.adopted and record.locked_elsewhere(self.app_id, labels.owner):
            return True  # the app's own record has a watcher again, which alone is to start waiting replicas
        app = open_app(labels, found, journal, self._observer.expected_replicas)
        self._make_prober(labels)
        self._record_facts(app, journal)
        decide(app, self._recorder, self._clock.now())
        if self._actions.stop(app, found):
            self._observer.invalidate()
            return False
        is_written = self._recorder.is_written()
        if is_written and app.wants_quiet and not any(each.live for each in found):
            self._take(app, {"e": "quiet"})
            decide(app, self._recorder, self._clock.now())
        if app.has_ended:
            return True
        if is_written and self._actions.start(app, found, self._events.engine_started_at):
            self._observer.invalidate()
            return False
        if self._prober is not None:
            self._prober.follow(found, app)
        self._samples.follow(found)
        self._wait(app, is_written=is_written)
        return False

    def _wait(self, app: HeldApp, *, is_written: bool) -> None:
        """Rest until the next event, or until the app has something to do."""
        again_s = None if is_written else AGAIN_S
        if app.stop is not None or app.to_stop:  # a stop that had no effect
            again_s = again_s or LONGEST_PAUSE_S
        deadline = app.deadline()
        left_s = None if deadline is None else deadline - self._clock.now()
        self._rest = Rest(min((each for each in (left_s, again_s) if each is not None), default=None))

    def _record_facts(self, app: HeldApp, journal: Journal) -> None:
        """Record events from the clock, the engine, the probes and the client that the journal lacks."""
        if (clock := self._clock.set_since()) is not None:
            self._take(app, clock)
        for fact in self._prober.facts(app) if self._prober is not None else ():
            self._take(app, fact)  # before the ends: a replica may have been ready before its end
        if self._events.orphaned and not app.orphaned:
            self._take(app, {"e": "orphaned", "why": self._why_orphaned()})
        restarted_at = self._events.engine_started_at
        if has_begun(self._found, app, restarted_at) or not self._found:
            end_of, seen_ends = partial(self._end_of, app, journal), self._events.by_itself
            for fact in containers_to_events(app, self._found, end_of, restarted_at, seen_ends):
                if fact.get("by") == "engine":
                    fact["code"] = self._events.code_of_last_end(fact["id"])
                self._samples.add_use(fact)
                self._take(app, fact)

    def _end_of(self, app: HeldApp, journal: Journal, ended: Container) -> Mapping[str, Any] | None:
        found = self._observer.end_of(ended, journal)
        if found.get("hand") and self._observer.runs_again(ended):
            return None
        if found["code"] == 0 and self._prober is not None and self._prober.has_file(ended, app):
            return {**found, "ready": True}
        return found

    def _take(self, app: HeldApp, fact: dict[str, Any]) -> None:
        self._recorder.append(fact)
        app.take(fact)

    def _make_prober(self, labels: Labels) -> None:
        rules = {role: rules["ready"] for role, _, rules in labels.order if rules.get("ready")}
        if rules and self._prober is None:
            from launcher.schedulers.docker.watching.probes import Prober

            self._prober = Prober(self._engine, rules, self._wake, resumed=self._resumed)

    def _labels(self) -> Labels:
        if self._found:
            return Labels(self._found[0].labels)
        return Labels(record.recorded_labels(self._app_dir))

    def _write_end(self, event: dict[str, Any]) -> None:
        if self.place is not None:
            self.place.leave()  # no container is left, and comparing input files takes a while
        seen = view(
            self._found,
            self._recorder.journal(),
            expected_replicas=self._observer.expected_replicas,
            labels=self._labels(),
        )
        assert seen is not None, "an app without containers and events does not end"
        end = replace(seen, state=event["state"], message=event["message"], exit_code=event["code"])
        is_late = self._resumed and (end.ended_at or 0) < self._began_at
        ends.write_end(self._engine, self._app_dir, end, self._found, is_late=is_late)


# -- the order of its client ---------------------------------------------------------------------------------


def own_record(engine: Engine, order: Mapping[str, Any]) -> tuple[RecordLock, Mapping[str, Any]]:
    """Make the record of an app whose client is on another machine, or take the one that is here.

    Returns its lock, and the order by the clock of this machine.
    """
    lock = record.claim(record.folder(order["app_id"]))
    if "labels" in order:
        record.write_labels(lock.app_dir, engine, order["labels"])
    if order["resumed"] and record.journal(lock.app_dir) is None:
        record.append(lock.app_dir, "adopted")
    return lock, {**order, "at": time.time()}


def left_orders(engine: Engine) -> Iterator[dict[str, Any]]:
    """Yield the orders for the apps of the previous process of this watcher, by the records here.

    Forgets apps that have not begun, or have ended.
    """
    record.sweep()
    for app_id in record.app_ids():
        app_dir = record.folder(app_id)
        journal = record.journal(app_dir)
        seen, found = Patience(engine.host, holds=True).persist(partial(inspect_app, engine, app_id))
        is_begun = journal is not None and journal.outcome is None and not journal.is_before_start
        if is_begun or (journal is None and seen is not None and seen.needs_watcher):
            share = next(filter(None, (each.labels.get(SHARE) for each in found)), "")
            yield {"app_id": app_id, "attached": False, "resumed": True, "share": share}
        else:
            record.remove(app_dir)


def _place_of(order: Mapping[str, Any], bells: Sequence[int]) -> Place | None:
    """The place of an app among those that share the machine; None for an app that takes no turn.

    Its client has taken it, with these `bells`, or leaves that to this process: for a new app, whose `ask`
    then lacks the machine, and for a running one, whose `share` its labels have. Raises StateError where the
    tables cannot be written.
    """
    share_label: str = (order.get("labels") or {}).get(SHARE) or order.get("share") or ""
    if not ("place" in order or "ask" in order or share_label):
        return None
    from launcher.schedulers.docker import share

    if "place" in order:
        return share.from_json(order["place"], bells)
    holder = os.uname().nodename
    if "ask" in order:
        return share.take(share.completed(order["ask"]), holder, later=order["later"])
    return share.take_from(share_label, holder)
