"""The methods that every scheduler inherits."""

from collections.abc import Mapping
from typing import Any

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers import DescribeAppResponse, ListAppResponse, Scheduler, Stream, api, logs
from launcher.schedulers.api import validate
from launcher.schedulers.readback import AppLogs
from launcher.specs import AppDef, AppDryRunInfo, AppState, Resource, Role, runopts


class Minimal(Scheduler[str]):
    """A scheduler with only the required methods."""

    def __init__(self, *states: AppState) -> None:
        super().__init__("minimal", "session")
        self.states = list(states)
        self.cancelled: list[str] = []

    def _run_opts(self) -> runopts:
        opts = runopts()
        opts.add("queue", str, "where to run", required=True)
        opts.add("nodes", int, "how many", default=1)
        return opts

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, Any]) -> AppDryRunInfo[str]:
        return AppDryRunInfo(f"{app.name} on {cfg['queue']} with {cfg['nodes']}", str.upper)

    def schedule(self, dryrun_info: AppDryRunInfo[str]) -> str:
        return f"id of {dryrun_info.request}"

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        if not self.states:
            return None
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return DescribeAppResponse(app_id=app_id, state=state)

    def list(self) -> list[ListAppResponse]:
        return []

    def _cancel_existing(self, app_id: str) -> None:
        self.cancelled.append(app_id)


APP = AppDef("app", [Role("r", "image")])


def test_submit_is_a_dry_run_and_a_schedule() -> None:
    assert Minimal().submit(APP, {"queue": "q"}) == "id of app on q with 1"


def test_a_dry_run_holds_its_app_its_options_and_its_scheduler() -> None:
    info = Minimal().submit_dryrun(APP, {"queue": "q", "nodes": 3})
    assert (info._app, info._cfg, info._scheduler) == (APP, {"queue": "q", "nodes": 3}, "minimal")
    assert repr(info) == "APP ON Q WITH 3"


def test_run_opts_may_be_overridden_directly() -> None:
    class Older(Minimal):
        def run_opts(self) -> runopts:
            opts = runopts()
            opts.add("queue", str, "", default="mine")
            opts.add("nodes", int, "", default=2)
            return opts

    assert Older().submit(APP, {}) == "id of app on mine with 2"


def test_cancel_reaches_only_apps_that_exist() -> None:
    gone, there = Minimal(), Minimal(AppState.RUNNING)
    gone.cancel("a")
    there.cancel("a")
    assert (gone.cancelled, there.cancelled) == ([], ["a"])
    assert [gone.exists("a"), there.exists("a")] == [False, True]


def test_wait_polls_until_the_app_has_ended_or_the_timeout_is_over() -> None:
    found = Minimal(AppState.PENDING, AppState.RUNNING, AppState.FAILED).wait("a", timeout_s=10)
    assert found.state is AppState.FAILED
    assert Minimal(AppState.RUNNING).wait("a", timeout_s=0.01).state is AppState.RUNNING
    assert Minimal().wait("a") is None


def test_a_resource_is_required_unless_a_scheduler_says_otherwise() -> None:
    with pytest.raises(api.ResourceRequired, match="`r`"):
        validate(Minimal(), APP, {})
    with pytest.raises(ValueError, match="`r`"):
        validate(Minimal(), APP, {})
    validate(Minimal(), AppDef("app", [Role("r", "i", resource=Resource(1, 0, 1))]), {})


def test_the_api_module_exports_the_types_that_schedulers_are_written_with() -> None:
    assert api.AppDryRunInfo is AppDryRunInfo
    assert (api.DescribeAppResponse, api.ListAppResponse) == (DescribeAppResponse, ListAppResponse)


def test_logs_are_refused_where_none_are_kept() -> None:
    kept = Minimal().logs("a")
    for read in (lambda: Minimal().log_iter("a", "r"), lambda: kept.records(("r", 0), logs.LogPart())):
        with pytest.raises(NotImplementedError):
            read()
        with pytest.raises(SchedulerError, match="minimal"):
            read()
    with pytest.raises(SchedulerError, match="minimal cannot tell the output of one restart"):
        kept.run_starts([("r", 0)])
    assert (list(kept.restarts()), list(kept.events()())) == ([], [])


def test_chunks_come_from_records_where_a_scheduler_has_nothing_faster() -> None:
    class Keeping(AppLogs):
        def records(self, where, part):
            end = f"{where[1]}\n".encode()
            return iter([logs.LogRecord(1, "stdout", b"a\nb"), logs.LogRecord(2, "stdout", end)])

    replicas = [("r", 0), ("r", 1)]
    whole = [("r", 0, b"a\nb"), ("r", 0, b"0\n"), ("r", 1, b"a\nb"), ("r", 1, b"1\n")]
    assert list(Keeping().chunks(replicas, logs.LogPart())) == whole
    assert list(Keeping().chunks(replicas, logs.LogPart(tail=1))) == [("r", 0, b"b0\n"), ("r", 1, b"b1\n")]


def test_generic_parameters_of_either_generation_are_taken() -> None:
    assert Scheduler[str] is Scheduler
    assert Scheduler[str, int, float] is Scheduler


def test_responses_of_schedulers_have_their_established_defaults() -> None:
    found = DescribeAppResponse()
    assert (found.app_id, found.state, found.num_restarts) == ("<NOT_SET>", AppState.UNSUBMITTED, -1)
    assert (found.msg, found.structured_error_msg, found.ui_url) == ("<NONE>", "<NONE>", None)
    assert (found.metadata, found.roles_statuses, found.roles) == ({}, [], [])


def test_listed_apps_are_equal_by_id_and_state_and_hash_alike() -> None:
    first = ListAppResponse("a", AppState.RUNNING, "h", name="x", created_at=1.0)
    assert first == ListAppResponse("a", AppState.RUNNING)
    assert hash(first) == hash(ListAppResponse("a", AppState.RUNNING))
    assert first != ListAppResponse("a", AppState.FAILED, "h", name="x", created_at=1.0)
    assert first.app_handle == "h"
    assert ListAppResponse("a", AppState.RUNNING).app_handle == "<NOT_SET>"


def test_a_stream_equals_its_name() -> None:
    assert [Stream.STDOUT, Stream.STDERR, Stream.COMBINED] == ["stdout", "stderr", "combined"]
    assert str(Stream.STDOUT) == "stdout"


@pytest.mark.parametrize(("text", "lines"), [
    ("", []), ("\n", ["\n"]), ("foo\nbar", ["foo\n", "bar"]), ("foo\nbar\n", ["foo\n", "bar\n"]),
    ("a\r\n\u2028b\x0cc", ["a\r\n", "\u2028b\x0cc"]), ("x\n" * 2_000_000, ["x\n"] * 2_000_000),  # linear
], ids=["nothing", "a newline", "no last newline", "lines", "other separators", "millions"])  # fmt: skip
def test_split_lines_splits_at_newlines_alone(text: str, lines: list[str]) -> None:
    assert api.split_lines(text) == lines


def test_split_lines_iterator_splits_each_chunk_by_itself() -> None:
    assert list(api.split_lines_iterator(["foo\nbar", "foobar"])) == ["foo\n", "bar", "foobar"]


def test_filter_regex_searches_lazily() -> None:
    def endless():
        yield from ("a1", "b2")
        raise AssertionError("read too far")

    found = api.filter_regex("[0-9]", endless())
    assert [next(found), next(found)] == ["a1", "b2"]
