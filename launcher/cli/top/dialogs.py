"""Dialogs above the screen, and commands that ask in them instead of on a terminal."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from launcher.cli.arguments import Arguments
from launcher.cli.console import Console
from launcher.cli.main import command, report
from launcher.cli.top.feed import Post
from launcher.cli.top.widgets import ScreenLine, TextPane
from launcher.errors import LauncherError
from launcher.inventory.project import job_file
from launcher.specs.jobkey import DEFAULT_TARGET
from launcher.state.records import AppRecord

FRAME = 8  # columns of a dialog around its text
_LINES = 6  # lines of a dialog above and below its text

KEYS = "space mark  c cancel  r re-run  s start now  / filter  tab below  ? help  q quit"
HELP = """\
The list
  up, down, j, k     go to a job; also page up, page down, home, end
  /                  show only jobs with these words: name, project, target, state, reason
  f                  all jobs, live ones, failed ones, ended ones
  a                  a line for each job of a large matrix, or one for those alike
  space, *           mark a job; mark all live jobs that are shown
  esc                take back marks, a filter, a search, the large text below

Below the list
  1 2 3 4            status and replicas, output, use against asked, turns of this machine
  tab, enter         go to the text and back; make it large
  o                  output: stdout and stderr, stdout, stderr
  [ ]                output of the replica before, of the next one
  /, n, N            search the text, once you have gone there: next, previous match

The job under the cursor, or the marked ones: each shows what it would do, and asks
  c                  cancel
  r                  re-run: the plan of its job file, with --rerun
  s                  start at once, out of turn

  q                  quit; the jobs keep running"""


class Dialog(ModalScreen[bool]):
    """A text with a title and, below it, a question; without a question, any of the keys closes it.

    Its result is whether the user has agreed.
    """

    CSS = """
    Dialog { align: center middle; background: transparent; }
    #dialog { height: auto; padding: 0 1; border: round ansi_default;
              background: ansi_default; }
    #text { scrollbar-size-vertical: 1; overflow-x: hidden; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q,enter", "answer(False)", show=False),
    ]

    def __init__(self, title: str, text: str, question: str = "") -> None:
        super().__init__()
        self._title, self._text, self._question = title, text, question

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield ScreenLine(id="title")
            yield TextPane(id="text", columns=self.app.size.width - FRAME)
            yield ScreenLine(id="question")

    def on_mount(self) -> None:
        self.query_one("#title", ScreenLine).show([(self._title, "bold")])
        text = self.query_one(TextPane)
        text.show(["", *self._text.strip("\n").split("\n"), ""])
        self._fit()
        text.focus()
        answers = "y yes   n no" if self._question else "esc close"
        question = self._question and f"{self._question}   "
        self.query_one("#question", ScreenLine).show([(question, "bold"), (answers, "cyan")])

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        text, frame = self.query_one(TextPane), self.query_one("#dialog")
        frame.styles.width = self.app.size.width - FRAME + 4
        text.styles.height = max(1, min(text.height, self.app.size.height - _LINES))

    def action_answer(self, is_yes: bool) -> None:
        self.dismiss(is_yes and bool(self._question))


class DialogConsole(Console):
    """Keeps what a command prints, and has its questions asked by a dialog.

    Args:
        columns: width that lines fit if possible.
        ask: called with the text so far and the question; returns the answer.
    """

    def __init__(self, columns: int, ask: Callable[[str, str], bool]) -> None:
        self._kept = StringIO()
        super().__init__(self._kept, self._kept)
        self._width, self._ask = columns, ask
        self.color = self.err_color = not os.environ.get("NO_COLOR")
        self.is_declined = False

    @property
    def columns(self) -> int:
        return self._width

    @property
    def cannot_ask(self) -> str:
        return ""

    def ask(self, question: str) -> bool:
        is_yes = self._ask(self.text, question.strip())
        self.is_declined = not is_yes
        self._kept.seek(0)
        self._kept.truncate()  # from here on, the text is the command's report
        return is_yes

    @property
    def text(self) -> str:
        return self._kept.getvalue()


Ask = Callable[[str, str, Callable[[bool | None], None]], None]
"""Shows a dialog with a text and a question; the last argument takes the answer."""


def run_command(
    words: Sequence[str],
    options: dict[str, Any],
    *,
    post: Post,
    ask: Ask,
    done: Callable[[str, bool], None],
    columns: int,
) -> None:
    """Run a command of launcher in a thread; it asks before it changes anything.

    Args:
        words, options: its command line, and parameters for its `run`.
        ask: called in the thread of the screen.
        done: called in that thread at the end, with the output since the question, and whether it failed.
    """

    def asked(text: str, question: str) -> bool:
        answered, answer = threading.Event(), [False]

        def take(is_yes: bool | None) -> None:
            answer[0] = bool(is_yes)
            answered.set()

        post(lambda: ask(text, question, take))
        answered.wait()
        return answer[0]

    def run() -> None:
        console = DialogConsole(columns, asked)
        try:
            name, *rest = words
            module, arguments = command(name), Arguments(f"launcher {name}")
            module.add_arguments(arguments)
            code = module.run(arguments.parse(rest), console, **options)
        except LauncherError as error:
            code = 0 if console.is_declined else report(error, console)
        post(lambda: done("" if console.is_declined else console.text, bool(code)))

    threading.Thread(target=run, daemon=True).start()


def rerun(apps: Sequence[AppRecord], target: str) -> Sequence[str]:
    """The command line that runs jobs of one target again. Raises LauncherError where a file is not here."""
    found = dict.fromkeys(job_file(*app.job_file) for app in apps if app.job_file is not None)
    jobs = dict.fromkeys(app.job or "" for app in apps)
    of_target = [] if target == DEFAULT_TARGET else ["--target", target]
    return [
        "apply",
        *found,
        *of_target,
        *(word for job in jobs for word in ("--select", job, "--rerun", job)),
    ]
