"""Faults of schedulers of installed packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.errors import SchedulerError
from launcher.runner import get_runner
from launcher.schedulers import get_scheduler
from launcher.schedulers.api import AppDryRunInfo, DescribeAppResponse, ListAppResponse, Scheduler
from launcher.schedulers.logs import LogPart
from launcher.schedulers.plugin import PluginError, guarding
from launcher.specs import AppDef, AppState, Resource, Role, runopts
from tests.unit.schedulers.plugins import scheduler_plugins

APP = AppDef("a", [Role("r", "", entrypoint="true", resource=Resource(1, 0, 1))])


class Sound(Scheduler[str]):
    """Gives a right answer to each question."""

    def _submit_dryrun(self, app: AppDef, cfg: Any) -> AppDryRunInfo[str]:
        return AppDryRunInfo(app.name, str)

    def schedule(self, dryrun_info: AppDryRunInfo[str]) -> str:
        return f"{dryrun_info.request}-1"

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return DescribeAppResponse(app_id, AppState.SUCCEEDED) if app_id == "a-1" else None

    def list(self) -> list[ListAppResponse]:
        return [ListAppResponse("a-1", AppState.SUCCEEDED)]

    def _cancel_existing(self, app_id: str) -> None:
        self.cancelled = app_id

    def log_iter(self, app_id: str, role_name: str, k: int = 0, *_: Any, **__: Any) -> Any:
        yield f"{role_name}/{k}\n"


def guarded(kind: type[Scheduler[Any]]) -> Scheduler[Any]:
    return guarding(lambda session_name, **_: kind("mine", session_name), "mine")("s")


def faulty(method: str, does: Any) -> Scheduler[Any]:
    """A guarded scheduler that does something else in one method of the contract."""
    return guarded(type("Faulty", (Sound,), {method: does, "__module__": __name__}))


def raising(*_: Any, **__: Any) -> Any:
    raise KeyError("no cluster")


def test_a_sound_scheduler_answers_as_without_a_guard() -> None:
    scheduler = guarded(Sound)
    assert scheduler.submit(APP, {}) == "a-1"
    assert (scheduler.describe("b"), scheduler.list()) == (None, [ListAppResponse("a-1", AppState.SUCCEEDED)])
    scheduler.cancel("a-1")
    assert scheduler.cancelled == "a-1"  # type: ignore[attr-defined]
    assert [*scheduler.log_iter("a-1", "r")] == ["r/0\n"]


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("_run_opts", lambda it: it.run_opts()),
        ("_submit_dryrun", lambda it: it.submit_dryrun(APP, {})),
        ("schedule", lambda it: it.submit(APP, {})),
        ("describe", lambda it: it.exists("a-1")),
        ("list", lambda it: it.list()),
        ("_cancel_existing", lambda it: it.cancel("a-1")),
        ("log_iter", lambda it: [*it.log_iter("a-1", "r")]),
        ("close", lambda it: it.close()),
    ],
)
def test_an_exception_of_a_plug_in_is_an_error_with_its_name_and_line(method: str, ask: Any) -> None:
    with pytest.raises(PluginError) as caught:
        ask(faulty(method, raising))
    text = str(caught.value)
    assert text.startswith("the scheduler `mine` failed: KeyError: 'no cluster', line ")
    assert text.endswith(f" of {__file__}")


def unfinished(*_: Any, **__: Any) -> Any:
    yield "one\n"
    raise OSError("gone")


def test_an_exception_within_the_lines_of_a_log_is_such_an_error() -> None:
    lines = faulty("log_iter", unfinished).log_iter("a-1", "r")
    assert next(iter(lines)) == "one\n"
    with pytest.raises(PluginError, match="OSError: gone"):
        next(iter(lines))


@pytest.mark.parametrize(
    ("method", "answer", "ask", "output"),
    [
        ("_run_opts", None, lambda it: it.run_opts(), "returned NoneType, not runopts"),
        ("_submit_dryrun", 3, lambda it: it.submit_dryrun(APP, {}), "returned int, not AppDryRunInfo"),
        ("schedule", None, lambda it: it.submit(APP, {}), "returned NoneType, not str"),
        ("describe", {}, lambda it: it.exists("a-1"), "returned dict, not DescribeAppResponse or None"),
        ("list", None, lambda it: it.list(), "returned NoneType, not list or tuple"),
        ("list", ["a"], lambda it: it.list(), "a list with str in it, not only ListAppResponse"),
        (
            "describe",
            DescribeAppResponse("a-1", "RUNNING"),  # type: ignore[arg-type]
            lambda it: it.exists("a-1"),
            "returned the state 'RUNNING', not an AppState",
        ),
        (
            "_submit_dryrun",
            AppDryRunInfo(1, lambda _: 1 // 0),  # type: ignore[arg-type, return-value]
            lambda it: repr(it.submit_dryrun(APP, {})),
            "ZeroDivisionError",
        ),
    ],
)
def test_an_answer_of_another_type_is_an_error_that_says_so(
    method: str, answer: Any, ask: Any, output: str
) -> None:
    with pytest.raises(PluginError) as caught:
        ask(faulty(method, lambda *_, **__: answer))
    assert output in str(caught.value)


def test_a_plug_in_catches_its_own_exceptions_through_the_base_class() -> None:
    class Careful(Sound):
        def describe(self, app_id: str) -> DescribeAppResponse | None:
            raise KeyError(app_id)

        def cancel(self, app_id: str, grace_s: float | None = None) -> None:
            try:
                super().cancel(app_id)
            except KeyError as error:
                self.caught = error.args

    scheduler = guarded(Careful)
    scheduler.cancel("a-1")
    assert scheduler.caught == ("a-1",)  # type: ignore[attr-defined]


def test_an_error_of_launcher_passes_unchanged() -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise SchedulerError("the queue is closed")

    with pytest.raises(SchedulerError, match=r"^the queue is closed$"):
        faulty("schedule", refused).submit(APP, {})


def test_a_validation_with_two_arguments_works_behind_the_guard() -> None:
    from launcher.schedulers.api import validate

    asked: list[Any] = []
    scheduler = faulty("_validate", lambda self, app, scheduler: asked.append((app.name, scheduler)))
    validate(scheduler, APP, {})
    assert asked == [("a", "mine")]


def test_commands_guard_a_plug_in_and_a_program_gets_it_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler_plugins(tmp_path, monkeypatch, none="extra_scheduler")
    with pytest.raises(PluginError, match="its factory returned tuple"):
        get_scheduler("none", "s")
    assert get_runner()._factories["none"]("s") == ("s", {})


def test_the_lines_of_a_log_iter_of_its_own_are_the_logs_of_a_scheduler() -> None:
    logs = guarded(Sound).logs("a-1")
    assert [*logs.chunks([("r", 0), ("r", 1)], LogPart())] == [("r", 0, b"r/0\n"), ("r", 1, b"r/1\n")]
    asked: list[Any] = []

    class Asked(Sound):
        def log_iter(self, *args: Any, **kwargs: Any) -> Any:
            asked.append((args[:4], [moment and moment.timestamp() for moment in args[4:6]], args[6], kwargs))
            return []

    part = LogPart("stderr", since=1.0, follow=True)
    assert [*guarded(Asked).logs("a-1").records(("r", 2), part)] == []
    [(args, times, follow, kwargs)] = asked
    assert (args, times, follow) == (("a-1", "r", 2, None), [1.0, None], True)
    assert str(kwargs["streams"]) == "stderr"


def test_options_are_those_that_the_scheduler_declares() -> None:
    def options(_: Any) -> runopts:
        opts = runopts()
        opts.add("queue", str, "the queue", default="main")
        return opts

    assert faulty("_run_opts", options).resolved({}) == {"queue": "main"}
