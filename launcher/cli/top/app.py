"""The screen of `launcher top`: a list of jobs, the details of the selected job below it, and the keys."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from launcher.cli.logs import STREAMS
from launcher.cli.main import TERMINATED
from launcher.cli.render.apps import in_short
from launcher.cli.top.dialogs import FRAME, HELP, KEYS, Dialog, rerun, run_command
from launcher.cli.top.feed import PANES, Answer, Asked, Feed, Present, RequestThread, answer
from launcher.cli.top.model import VIEWS, Filter, name_of
from launcher.cli.top.widgets import JobList, ScreenLine, TextPane
from launcher.errors import LauncherError
from launcher.inventory.recorded import at
from launcher.state.records import AppRecord
from launcher.text import plural

_YOUNG_S = 60.0
_TICK_S, _SLOW_S = 1.0, 10.0  # seconds between two updates of run times, with young apps and without
_LOG_S, _SHARE = 1.0, 100
"""The log of a live app is read again after so many seconds; a text takes at most 1/100 of the time."""


class Top(App[None]):
    """The screen; see `launcher top --help`. `words`: the words of the first filter."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "launcher top"
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #jobs { height: 4fr; }
    #pane { height: 5fr; }
    #jobs, #pane { scrollbar-size-vertical: 1; overflow-x: hidden; background: ansi_default; }
    #entry { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    Screen.large #jobs, Screen.large #headings { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "leave", priority=False, show=False),
        Binding("ctrl+z", "suspend_process", show=False),
        Binding("question_mark,h", "help", show=False),
        Binding("slash", "entry", show=False),
        Binding("f", "view", show=False),
        Binding("a", "fold", show=False),
        Binding("space", "mark", show=False),
        Binding("asterisk", "mark_all", show=False),
        Binding("escape", "step_back", show=False),
        Binding("tab", "other", show=False, priority=True),
        Binding("enter", "large", show=False),
        *(Binding(str(n), f"pane('{pane}')", show=False) for n, pane in enumerate(PANES, 1)),
        Binding("l", "pane('log')", show=False),
        Binding("o", "stream", show=False),
        Binding("left_square_bracket", "replica(-1)", show=False),
        Binding("right_square_bracket", "replica(1)", show=False),
        Binding("n", "match(1)", show=False),
        Binding("N", "match(-1)", show=False),
        Binding("c", "cancel", show=False),
        Binding("r", "rerun", show=False),
        Binding("s", "start", show=False),
    ]

    class Posted(Message):
        """Carries a function that another thread wants called in the thread of the screen."""

        def __init__(self, act: Callable[[], None]) -> None:
            super().__init__()
            self.act = act

    def __init__(self, words: Sequence[str] = (), *, first: Callable[[Feed], Present] = Feed.first) -> None:
        super().__init__(ansi_color=True)
        self._filter = Filter(words=tuple(words))
        self._pane, self._stream, self._replica = PANES[0], STREAMS[0], 0
        self._in_full = False
        self._said = ""
        self._doing: list[str] = []  # commands that have not ended
        self._present: Present | None = None
        self._shown: Asked | None = None
        self._answer: Answer | None = None
        self._feed = Feed(self._post, self._say, self._take)
        self._texts = RequestThread(self._post, self._cannot_show)
        self._again: Timer | None = None
        self._tick_s = _TICK_S
        self._is_leaving = False
        self._present = first(self._feed)

    def _post(self, act: Callable[[], None]) -> None:
        self.post_message(self.Posted(act))

    def on_top_posted(self, message: Posted) -> None:
        if self.is_running:
            message.act()

    def compose(self) -> ComposeResult:
        yield ScreenLine(id="title")
        yield ScreenLine(id="headings")
        yield JobList()
        yield ScreenLine(id="tabs")
        yield TextPane(id="pane")
        yield Input(id="entry", select_on_focus=False)
        yield ScreenLine(id="keys")

    def on_mount(self) -> None:
        self.jobs, self.text = self.query_one(JobList), self.query_one("#pane", TextPane)
        self.entry = self.query_one(Input)
        # a query searches the uppermost screen
        self.lines = {line.id: line for line in self.query(ScreenLine)}
        self.jobs.focus()
        if self._present is not None:
            self._take(self._present)
        # Leaves the terminal as it was: see `launcher.cli.main.TERMINATED`.
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, lambda: self.exit(return_code=TERMINATED)
        )
        self._feed.begin()
        self._texts.begin()
        self._find()
        self._tick()

    def on_unmount(self) -> None:
        self._feed.close()
        self._texts.close()

    # What is shown

    def _take(self, present: Present) -> None:
        """Show the present apps."""
        here = self.jobs.app_here
        self._present = present
        self.jobs.jobs.limits = present.limits
        self.jobs.jobs.show(present.live, present.recent, self._filter, in_full=self._in_full)
        self.jobs.changed(here.handle if here and self.jobs.cursor else "")
        for app in (*present.live, *present.recent):
            if app.handle in self.jobs.marks:
                self.jobs.marks[app.handle] = app
        self._draw_lines()
        now_here = self.jobs.app_here
        if (now_here and now_here.app_id in present.asked) or (present.turns and self._pane == "queue"):
            self._read(again=True)
        if self._feed.is_full:
            self._find()

    def _find(self) -> None:
        """Request the places of the ended apps that match another filter."""
        chosen = self._filter

        def found(places: object) -> None:
            if chosen == self._filter:
                here = self.jobs.app_here
                self.jobs.jobs.find(places)  # type: ignore[arg-type]
                self.jobs.changed(here.handle if here else "")
                self._draw_lines()

        self._feed.ask("find", lambda: self._feed.find(chosen, found))

    def on_job_list_missing(self) -> None:
        for page, places in self.jobs.jobs.unknown(*self.jobs.seen()):
            self._feed.ask(f"page {page}", lambda page=page, places=places: self._page(page, places))  # type: ignore[misc]

    def _page(self, page: int, places: Sequence[int]) -> None:
        """Read a page of ended apps. Runs in the thread of the feed."""
        apps = at(places)

        def show() -> None:
            self.jobs.jobs.fill(page, apps)
            self.jobs.changed()

        self._post(show)

    def _draw_lines(self) -> None:
        """Draw the lines above and below the list, and the last line."""
        live = self._present.live if self._present else ()
        ended = len(self.jobs.jobs.recent) + len(self.jobs.jobs.places)
        title = [
            ("launcher top", "bold"),
            (f"  {project}" if (project := self.jobs.only_project) else "", ""),
            (f"  {in_short(live) if live else 'no live apps'}; {ended:,} ended", ""),
        ]
        if self._filter.view != "all":
            title.append((f"  {self._filter.view} only", "yellow"))
        if self._filter.words:
            title.append((f"  /{' '.join(self._filter.words)}", "yellow"))
        if self.jobs.marks:
            title.append((f"  {len(self.jobs.marks)} marked", "bold yellow"))
        self.lines["title"].show(title)
        self.lines["headings"].show(self.jobs.headings())
        self._draw_tabs()
        doing = f"running: launcher {self._doing[-1]}" if self._doing else ""
        message = self._said or doing
        self.lines["keys"].show([(message, "bold")] if message else [(KEYS, "dim")])

    def _draw_tabs(self) -> None:
        app = self.jobs.app_here
        parts = [("── ", "dim"), (name_of(app) if app else "", "bold"), (" ── ", "dim")]
        for n, pane in enumerate(PANES, 1):
            parts += [(f"{n} {pane}", "bold cyan" if pane == self._pane else ""), ("  ", "")]
        title = self._answer.title if self._answer and self._answer.asked == self._shown else ""
        parts += [(f"{title} ", "dim"), ("─" * self.size.width, "dim")]
        self.lines["tabs"].show(parts)

    def _say(self, text: str) -> None:
        self._said = text.replace("\n", " ")
        self._draw_lines()

    def on_key(self, event: events.Key) -> None:
        if self._said:
            self._say("")

    def on_resize(self) -> None:
        self.call_after_refresh(self._read, again=True)

    def on_job_list_moved(self) -> None:
        self._draw_lines()
        self.on_job_list_missing()
        self._read()

    def _read(self, *, again: bool = False) -> None:
        """Request the text below the list if it has changed, or in any case with `again`."""
        asked = Asked(
            pane=self._pane,
            app=self.jobs.app_here,
            stream=self._stream,
            replica=self._replica,
            columns=self.size.width - 1,
            in_full=self._in_full,
            color=not self.no_color,
        )
        if not again and self._shown is not None and asked.is_of(self._shown):
            return
        if self._shown is None or not asked.is_of(self._shown):
            self._answer = None
        self._shown = asked
        self._texts.ask("text", lambda: self._answered(answer(asked)))

    def _answered(self, made: Answer) -> None:
        """Show a text. Called in the thread that reads texts."""

        def show() -> None:
            if self._shown is None or not made.asked.is_of(self._shown):
                return
            is_new = self._answer is None
            self._answer = made
            self.text.show(made.lines, is_new=is_new, is_tail=made.is_tail)
            self._draw_tabs()
            app, pane = made.asked.app, made.asked.pane
            if app and app.is_live and (pane == "log" or (pane == "status" and not app.is_held)):
                seconds = max(_LOG_S if pane == "log" else self._tick_s, made.spent_s * _SHARE)
                if self._again is not None:
                    self._again.stop()
                self._again = self.set_timer(seconds, lambda: self._read(again=True))

        self._post(show)

    def _cannot_show(self, message: str) -> None:
        """Show the error of reading a text in place of the text."""
        self._answer = None
        self.text.show([message])
        self._draw_tabs()

    def _tick(self) -> None:
        """Show how long apps have run."""
        now = time.time()
        young = False
        for row in range(self.jobs.seen()[0], self.jobs.seen()[1] + 1):
            apps = self.jobs.jobs.row(row)
            if len(apps) == 1 and apps[0].is_live and apps[0].started_at:
                young = young or now - apps[0].started_at < _YOUNG_S
                self.jobs.refresh_line(row)
        self._tick_s = _TICK_S if young else _SLOW_S
        self.set_timer(self._tick_s, self._tick)

    # Keys

    def action_leave(self) -> None:
        if self._doing and not self._is_leaving:
            self._is_leaving = True
            self._say(f"launcher {self._doing[-1]} has not ended; q again leaves it as it is")
            return
        self.exit()

    def action_help(self) -> None:
        self.push_screen(Dialog("launcher top", HELP))

    def action_other(self) -> None:
        if not self.entry.has_focus and len(self.screen_stack) == 1:
            (self.text if self.jobs.has_focus else self.jobs).focus()

    def action_large(self) -> None:
        is_large = self.screen.toggle_class("large").has_class("large")
        (self.text if is_large else self.jobs).focus()

    def action_step_back(self) -> None:
        """Go one step back: leave the large text, a search, the marks or the filter."""
        if self.entry.display:
            self._close_entry()
        elif self.screen.has_class("large"):
            self.action_large()
        elif self.text.has_focus:
            self.text.search("")
            self.jobs.focus()
        elif self.jobs.marks:
            self.jobs.marks.clear()
            self.jobs.refresh()
            self._draw_lines()
        else:
            self._choose(Filter())

    def action_view(self) -> None:
        views = list(VIEWS)
        view = views[(views.index(self._filter.view) + 1) % len(views)]
        self._choose(Filter(words=self._filter.words, view=view))

    def _choose(self, chosen: Filter) -> None:
        if chosen == self._filter:
            return
        self._filter = chosen
        self.jobs.forget_widths()
        if self._present is not None:
            self._take(self._present)
        self._find()

    def action_fold(self) -> None:
        self._in_full = not self._in_full
        if self._present is not None:
            self._take(self._present)
        self._read(again=self._pane == "queue")

    def action_mark(self) -> None:
        if self.jobs.apps:
            self.jobs.mark(self.jobs.apps)
            self.jobs.action_move(1)
            self._draw_lines()

    def action_mark_all(self) -> None:
        self.jobs.mark([app for apps in self.jobs.jobs.live for app in apps])
        self._draw_lines()

    def action_pane(self, pane: str) -> None:
        self._pane = pane
        self._read()
        self._draw_tabs()

    def action_stream(self) -> None:
        self._stream = STREAMS[(STREAMS.index(self._stream) + 1) % len(STREAMS)]
        self.action_pane("log")

    def action_replica(self, step: int) -> None:
        self._replica += step
        self.action_pane("log")

    def action_match(self, direction: int) -> None:
        self.text.action_match(direction)

    # The line in which words are typed

    def action_entry(self) -> None:
        self.entry.value = "" if self.text.has_focus else " ".join(self._filter.words)
        self.entry.placeholder = "search the text" if self.text.has_focus else "words that a job must have"
        self._is_search = self.text.has_focus
        self.entry.display = True
        self.lines["keys"].display = False
        self.entry.focus()

    def on_input_submitted(self) -> None:
        if self._is_search:
            try:
                found = self.text.search(self.entry.value)
                counted = plural(found, "line matches", "lines match")
                self._say(
                    f"{counted}; n and N go to the next and the previous one" if self.entry.value else ""
                )
            except re.error as error:
                self._say(f"this is no regular expression: {error}")
        self._close_entry()

    def on_input_changed(self) -> None:
        if self.entry.display and not self._is_search:
            self._choose(Filter(words=tuple(self.entry.value.split()), view=self._filter.view))

    def _close_entry(self) -> None:
        self.entry.display = False
        self.lines["keys"].display = True
        (self.text if self._is_search else self.jobs).focus()

    # Commands

    def _chosen(self) -> list[AppRecord]:
        return [*self.jobs.marks.values()] or [*self.jobs.apps]

    def action_cancel(self) -> None:
        self._command("cancel", [app for app in self._chosen() if app.is_live], "no live job is chosen")

    def action_start(self) -> None:
        line = [app for app in self._chosen() if app.state == "queued"]
        self._command("start", line, "no job in line is chosen", "--now")

    def _command(self, name: str, apps: Sequence[AppRecord], otherwise: str, *options: str) -> None:
        if apps:
            self._run([name, *(app.handle for app in apps), *options], always_asks=True)
        else:
            self._say(otherwise)

    def action_rerun(self) -> None:
        """Show the plan of the job files, one for each target, since `apply` takes one target."""
        apps = [app for app in self._chosen() if app.job]
        if not apps:
            self._say("no job of a job file is chosen")
        for target, each in groupby(sorted(apps, key=lambda app: app.key[1]), key=lambda app: app.key[1]):
            try:
                self._run([*rerun([*each], target)])
            except LauncherError as error:
                self._say(f"{error}: {error.hint}" if error.hint else str(error))

    def _run(self, words: Sequence[str], **options: bool) -> None:
        title = " ".join(words if len(words) < 8 else [*words[:6], f"and {len(words) - 6} more"])
        self._doing.append(title)
        self._is_leaving = False
        self._say("")

        def ask(text: str, question: str, then: Callable[[bool | None], None]) -> None:
            self.push_screen(Dialog(f"launcher {title}", text, question), then)

        def done(text: str, has_failed: bool) -> None:
            self._doing.remove(title)
            self.jobs.marks.clear()
            self._feed.look()
            lines = text.strip("\n").split("\n")
            if has_failed or len(lines) > 1:
                self.push_screen(Dialog(f"launcher {title}", text))
            self._say("" if has_failed else lines[-1])

        columns = self.size.width - FRAME - 1
        run_command(words, dict(options), post=self._post, ask=ask, done=done, columns=columns)
