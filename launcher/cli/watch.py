"""Output of an apply: the plan, changes of state, the output of replicas, the result."""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from launcher import outages
from launcher.apply.events import Outcome, Result, Watching, event
from launcher.cli.console import Console, OutputClosed, OutputError
from launcher.cli.live_display import IMAGE_EVENTS, LiveDisplay
from launcher.cli.render.outcomes import (
    EventLines,
    errors_text,
    outcome_json,
    outcomes_text,
    outputs_text,
    result_json,
)
from launcher.cli.render.plan_text import plan_text
from launcher.inventory import recorded
from launcher.inventory.find import shortest_name
from launcher.inventory.listing import present
from launcher.plan.model import Plan
from launcher.specs.launch import JobKey
from launcher.state.records import WAITING, AppRecord

if TYPE_CHECKING:
    from launcher.cli.render.live_frames import LiveFrames
    from launcher.cli.render.log_lines import Shaper

_HELD_S = 1.0  # seconds between two checks why an app is held
_MOST_ROWS = 20  # the most unchanged jobs that the result lists; the others are counted
_DETACHED = "detached: the jobs keep running; to watch them: launcher status --watch"
_NOT_BEGUN = "interrupted: no job was started or stopped"


class Watch:
    """Shows one apply. A context manager.

    A closed stdout must not stop an apply half way: the output is then discarded.

    Args:
        format: "text", "json" (the result alone) or "jsonl" (every event).
        in_full: every job of a large matrix has a line of its own.
    """

    def __init__(
        self, console: Console, *, format: str, wait: bool, logs: bool, in_full: bool = False
    ) -> None:
        self._console = console
        self._format = format
        self._wait = wait
        self._logs = logs
        self._in_full = in_full
        self._matrices: dict[JobKey, str] = {}
        self._event_lines = EventLines({})
        self._lock = RLock()
        self._shapers: dict[tuple[JobKey, str, int], Shaper] = {}
        self._fronts: dict[tuple[JobKey, str, int], bytes] = {}
        self._display = LiveDisplay(console, self._note)
        self._frames: LiveFrames | None = None
        self._held_apps: dict[str, tuple[float, AppRecord | None]] = {}
        self._begun = False  # whether the apply has looked at a job under the lock
        self._interrupted = False  # whether an interrupt came while it worked on the jobs

    def __enter__(self) -> Watch:
        outages.report = self._display.say
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._display.close()
        if self._frames is not None:
            self._frames.close()
        if kind is KeyboardInterrupt and not self._begun:
            self._console.note(_NOT_BEGUN)
        elif kind is KeyboardInterrupt and self._wait and not self._interrupted:
            self._console.note(_DETACHED)

    def watching(self) -> Watching:
        live = self._wait and not self._logs and self._format == "text" and self._console.err_is_screen
        return Watching(
            on_event=self._event,
            on_log=self._log if self._logs else None,
            on_progress=self._look if live else None,
        )

    def planned(self, plan: Plan, *, show: bool = True) -> None:
        """Show the plan before it is carried out. Raises OutputError if it cannot be written."""
        if not self._in_full:
            self._matrices = {step.key: step.launch.matrix for step in plan.steps if step.launch is not None}
            self._event_lines = EventLines(self._matrices)
        if self._logs:
            from launcher.cli.render.log_lines import prefixes

            replicas = list(_replicas(plan))
            fronts = prefixes([name for _, name in replicas], self._console.color)
            self._fronts = dict(zip((where for where, _ in replicas), fronts, strict=True))
            if self._format == "text" and self._console.is_terminal:
                from launcher.cli.render.live_frames import on_terminal

                self._frames = on_terminal(self._console)
        if self._format == "jsonl":
            counts = {kind: count for kind, count in plan.counts().items() if count}
            self._json(event("planned", counts=counts, plan_digest=plan.plan_digest))
        elif self._format == "text" and show:
            try:
                text = plan_text(
                    plan, color=self._console.color, columns=self._console.columns, in_full=self._in_full
                )
                self._console.print(text + "\n", flush=True)
            except OutputClosed:
                pass  # the reader of stdout has exited, and with --yes no approval is needed

    def finish(self, result: Result) -> int:
        """Show the result, and return the exit code."""
        self.__exit__(None)
        if held := [each.app for each in result.outcomes if each.app is not None and each.is_held]:
            present(lambda: held)
        for where in self._shapers:
            self._finish_line(where)
        if self._format == "json":
            self._json(result_json(result), indent=2)
        elif self._format == "jsonl":
            jobs = list(map(outcome_json, result.outcomes))
            self._json(event("done", exit_code=result.exit_code, jobs=jobs))
        else:
            self._show(result.outcomes)
        for outcome in result.outcomes:
            for warning in outcome.warnings:
                self._console.warn(f"{outcome.key.job}: {warning}")
        for text in errors_text(result.outcomes, color=self._console.err_color):
            self._console.note(text)
        return result.exit_code

    def _show(self, outcomes: Sequence[Outcome]) -> None:
        unchanged = [outcome for outcome in outcomes if outcome.kind == "keep"]
        shown = outcomes if len(unchanged) <= _MOST_ROWS else [o for o in outcomes if o.kind != "keep"]
        if shown:
            text = outcomes_text(
                shown, matrices=self._matrices, color=self._console.color, columns=self._console.columns
            )
            self._write(("\n" if self._shapers else "") + text)
        self._show_outputs([outcome for outcome in shown if outcome.kind != "keep"])
        for outcome in outcomes:
            if outcome.app is not None and outcome.is_held and outcome.app.abandoned:
                self._console.note(f"{outcome.key.job}: {outcome.message}")  # a table may cut the remedy
        advice = self._advice(outcomes)
        if advice:
            self._console.note(advice)

    def _show_outputs(self, outcomes: Sequence[Outcome]) -> None:
        """Show where the jobs of `apply --wait` have left files."""
        found = [outcome for outcome in outcomes if outcome.output and not _is_empty_here(outcome.output)]
        if self._wait and 0 < len(found) <= _MOST_ROWS:
            self._write("\n" + outputs_text(found, color=self._console.color))
        elif self._wait and found:
            self._console.note(f"{len(found)} jobs have output folders: launcher output JOB")

    def _advice(self, outcomes: Sequence[Outcome]) -> str:
        """A command for the next step: follow running jobs, or see the output of a failed one."""
        running = [outcome for outcome in outcomes if outcome.is_live]
        failed = [outcome for outcome in outcomes if outcome.state == "failed"]
        if not running and not failed:
            return ""
        if len(running) > 1 and not self._wait:
            return "the jobs keep running; to watch them: launcher status --watch"
        if running and not self._wait:
            app = shortest_name(running[0].key.job, running[0].handle)
            return f"the job keeps running; to follow its output: launcher logs {app} --follow"
        if failed and not self._logs:
            return f"to see its output: launcher logs {shortest_name(failed[0].key.job, failed[0].handle)}"
        return ""

    def _event(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "ended":
            with self._lock:
                for where in self._shapers:
                    if where[0] == _key(event):
                        self._finish_line(where)
        self._begun = self._begun or event["event"] != "waiting"
        self._interrupted = self._interrupted or event["event"] == "interrupted"
        if self._format == "jsonl":
            self._json(event)
            return
        if event["event"] in IMAGE_EVENTS:
            self._display.image(_key(event), event["event"], event)
            return
        if event["event"] == "failed":
            self._display.forget(_key(event))
        with self._lock:
            line = self._event_lines.line(_key(event), event, color=self._console.err_color)
        if line is not None:
            self._display.say(line)

    def _note(self, line: str) -> None:
        """Show a message while there is no live table: above the progress bars of replicas, if any."""
        with self._lock:
            if self._frames is not None:
                with self._frames.above():
                    self._console.note(line)
            else:
                self._console.note(line)

    def _look(self, key: JobKey, app: AppRecord) -> None:
        held = self._held(app.app_id) if app.state in ("created", *WAITING) else None
        self._display.update(key, held or app)

    def _held(self, app_id: str) -> AppRecord | None:
        """Return the record of a held app, with the reason why it has not started; read once a second."""
        at, app = self._held_apps.get(app_id, (0.0, None))
        if monotonic() - at >= _HELD_S:
            found = recorded.app(app_id)
            [app] = present(lambda: [found]) if found is not None else [None]
            self._held_apps[app_id] = monotonic(), app
        return app if app is not None and app.is_held else None

    def _log(self, key: JobKey, role: str, k: int, data: bytes) -> None:
        from launcher.cli.render.log_lines import Shaper, prefixes

        where = (key, role, k)
        with self._lock:
            shaper = self._shapers.get(where)
            if shaper is None:
                front = self._fronts.get(where) or next(prefixes([(role, k)], self._console.color))
                shaper = self._shapers[where] = Shaper(b"" if self._format == "jsonl" else front)
            self._lines(where, shaper.feed(0, "", data))

    def _finish_line(self, where: tuple[JobKey, str, int]) -> None:
        """Print the last line of a replica if it has no newline."""
        self._lines(where, self._shapers[where].finish(0))

    def _lines(self, where: tuple[JobKey, str, int], lines: bytes) -> None:
        if self._frames is not None:
            try:
                self._frames.show(where, lines, self._shapers[where].frame())
            except OutputClosed:
                pass
            except OutputError as error:
                self._console.error(error)
            return
        if not lines:
            return
        key, role, k = where
        if self._format == "text":
            self._write(lines)
        elif self._format == "json":
            self._console.note(lines.decode("utf-8", "replace").removesuffix("\n"))
        else:
            text = lines.decode("utf-8", "replace")
            self._json(event("log", **key._asdict(), role=role, replica=k, text=text))

    def _json(self, value: Mapping[str, Any], indent: int | None = None) -> None:
        from json import dumps

        self._write(dumps(value, indent=indent, ensure_ascii=False))

    def _write(self, text: str | bytes) -> None:
        """Write text of launcher or lines of replicas; the latter are escaped only on a terminal."""
        with self._lock:
            try:
                if isinstance(text, bytes):
                    from launcher.cli.render.terminal_text import terminal_text

                    lines = terminal_text(text) if self._console.is_terminal else text
                    self._console.copy(lines, flush=True)
                else:
                    self._console.print(text, flush=True)
            except OutputClosed:
                pass  # the console discards further output
            except OutputError as error:
                self._console.error(error)


def _is_empty_here(address: str) -> bool:
    """Whether an output folder on this machine is empty. Local jobs always have an output folder."""
    with suppress(OSError):
        return os.path.isabs(address) and not os.listdir(address)
    return False


def _key(event: Mapping[str, Any]) -> JobKey:
    return JobKey(event["project"], event["target"], event["job"])


def _replicas(plan: Plan) -> Iterator[tuple[tuple[JobKey, str, int], tuple[str, int]]]:
    """Every replica of the plan's jobs, and the label of its lines, with the job if there are several."""
    launches = [step.launch for step in plan.steps if step.launch is not None]
    for launch in launches:
        for role in launch.app.roles:
            name = role.name if len(launches) == 1 else f"{launch.key.job}/{role.name}"
            for k in range(role.num_replicas):
                yield (launch.key, role.name, k), (name, k)
