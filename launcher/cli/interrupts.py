"""Ctrl-C and SIGTERM in commands that must clean up before they exit."""

from __future__ import annotations

from launcher.errors import Terminated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn

    from launcher.state.records import AppRecord


def terminate_with_exception() -> None:
    """Make SIGTERM raise Terminated in the main thread, so that `finally` blocks run.

    Without effect in another thread: there, `top` runs commands, and handles signals itself.
    """
    import signal

    try:
        signal.signal(signal.SIGTERM, _terminated)
    except ValueError:  # Python raises this in other threads
        pass


def _terminated(_signal: int, _frame: object) -> NoReturn:
    raise Terminated


class Attached:
    """Cancels an app on Ctrl-C or SIGTERM, and kills it on the second signal. A context manager.

    The first two signals raise nothing, so that the caller follows the app to its end. An error of the
    cancellation is raised in the main thread; a third signal raises KeyboardInterrupt or Terminated.

    Attributes:
        exit_code: of an interrupted command; 0 if no signal was received.
    """

    def __init__(self, app: AppRecord, note: Callable[[str], None]) -> None:
        """`note` shows a message; it is called from other threads."""
        self.exit_code = 0
        self._app = app
        self._note = note
        self._count = 0
        self._error: BaseException | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Attached:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell starts background jobs
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import signal

        for number, before in self._before.items():
            signal.signal(number, before)

    def _received(self, number: int, _frame: object) -> None:
        # The main thread may hold the lock that `threading` needs to start a thread.
        from _thread import start_new_thread

        if self._error is not None:
            raise self._error
        self._count += 1
        self.exit_code = self.exit_code or 128 + number
        if self._count > 2:
            raise Terminated if number == 15 else KeyboardInterrupt
        start_new_thread(self._cancel, (self._count > 1,))

    def _cancel(self, at_once: bool) -> None:
        import signal
        import threading

        from launcher.inventory.recorded import scheduler_of

        name = self._app.app_id
        self._note(f"killing {name}" if at_once else f"cancelling {name}; Ctrl-C again kills it")
        try:
            scheduler = scheduler_of(self._app)
            scheduler.on_wait = lambda app_id, what: self._note(f"waiting for {app_id} to stop: {what}")
            scheduler.interrupt(self._app.app_id, *([0.0] if at_once else []))
        except BaseException as error:
            self._error = error
            signal.pthread_kill(
                threading.main_thread().ident or 0, signal.SIGINT
            )  # wakes the main thread from a blocking call
