"""The Runner: what it hands to a scheduler, and what it makes of the answers."""

import copy
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.components import ComponentArgumentException
from launcher.errors import LauncherError, UsageError
from launcher.runner import InvalidAppException, Runner, get_runner
from launcher.schedulers.responses import ListAppResponse, Stream
from launcher.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    InvalidRunConfigException,
    MalformedAppHandleException,
    Role,
    UnknownAppException,
    UnknownSchedulerException,
)
from tests.unit.runner.engine import MemoryScheduler


def app(**changes: object) -> AppDef:
    role = {"name": "main", "image": "", "entrypoint": "echo", "args": ["hi"], "env": {"A": "1"}, **changes}
    return AppDef(name="demo", roles=[Role(**role)], metadata={"team": "vision"})


@pytest.fixture
def engines() -> list[MemoryScheduler]:
    """Every scheduler that was made, in order."""
    return []


@pytest.fixture
def runner(engines: list[MemoryScheduler]) -> Iterator[Runner]:
    def factory(session_name: str, **params: object) -> MemoryScheduler:
        engines.append(MemoryScheduler(session_name, **params))
        return engines[-1]

    with Runner("session", {"memory": factory, "other": factory}) as opened:
        yield opened


# Schedulers


def test_schedulers_are_made_on_first_use_and_once(runner: Runner, engines: list[MemoryScheduler]):
    assert engines == []
    assert runner.scheduler_backends() == ["memory", "other"]
    assert engines == []
    for _ in range(2):
        runner.run(app(), "memory")
    assert [engine.session_name for engine in engines] == ["session"]


def test_threads_that_share_a_runner_share_its_schedulers():
    made = []

    def slow(session_name: str, **params: object) -> MemoryScheduler:
        time.sleep(0.05)
        made.append(MemoryScheduler(session_name, **params))
        return made[-1]

    with Runner("session", {"memory": slow}) as runner, ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: runner.run(app(), "memory"), range(8)))) == 8
    assert len(made) == 1
    assert len(made[0].apps) == 8


def test_factories_get_the_parameters_and_whether_to_detach():
    for detach in (False, True):
        params = {"cache_size": 5, "detach": detach}
        with Runner(
            "s", {"memory": MemoryScheduler}, scheduler_params={"cache_size": 5}, detach=detach
        ) as runner:
            assert runner._scheduler("memory").params == params


def test_schedulers_are_made_with_the_setting_whether_apps_wait_in_line():
    for queue in (False, True):
        with Runner("s", {"memory": MemoryScheduler}, queue=queue) as runner:
            assert runner._scheduler("memory").in_turn is queue


def test_an_unknown_scheduler_is_an_error_with_the_nearest_name(runner: Runner):
    with pytest.raises(UnknownSchedulerException) as unknown:
        runner.run(app(), "memroy")
    assert str(unknown.value) == "there is no scheduler `memroy`"
    assert "memory" in str(unknown.value.hint)
    with pytest.raises(KeyError):
        runner.status("memroy://session/demo-0")


def test_leaving_the_context_closes_every_scheduler_once_and_lets_errors_through(runner, engines):
    runner.run(app(), "memory")
    runner.run(app(), "other")
    with pytest.raises(ZeroDivisionError), runner:
        _ = 1 / 0
    runner.close()
    assert [engine.closed for engine in engines] == [1, 1]


@pytest.mark.parametrize("start", [
    lambda runner, info: runner.run(app(), "memory"),
    lambda runner, info: runner.run(app(), "memory", workspace="/"),
    lambda runner, info: runner.schedule(info),
], ids=["run", "run with a workspace", "schedule"])  # fmt: skip
def test_a_closed_runner_starts_no_app_and_still_answers(runner: Runner, start: Callable[..., str]):
    info = runner.dryrun(app(), "memory")
    runner.close()
    with pytest.raises(LauncherError, match="this Runner is closed"):
        start(runner, info)
    assert runner.list("memory") == []


@pytest.mark.parametrize("detach", [False, True])
def test_an_app_that_starts_while_the_runner_is_closed_runs_on_only_when_detached(detach: bool):
    class Closing(MemoryScheduler):
        def schedule(self, dryrun_info: AppDryRunInfo[AppDef]) -> str:
            runner.close()  # as another thread does it
            return super().schedule(dryrun_info)

    made = Closing("session")
    runner = Runner("session", {"memory": lambda *_, **__: made}, detach=detach)
    if detach:
        assert runner.run(app(), "memory") == "memory://session/demo-0"
    else:
        with pytest.raises(LauncherError, match="the Runner was closed while app `demo-0` started"):
            runner.run(app(), "memory")
    assert made.cancelled == ([] if detach else ["demo-0"])


def test_closing_goes_on_where_one_scheduler_fails(runner: Runner, engines: list[MemoryScheduler]):
    for name in ("memory", "other"):
        runner.run(app(), name)
    engines[1].close = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        runner.close()
    assert engines[0].closed == 1


def test_get_runner_has_the_schedulers_that_are_installed():
    with get_runner() as runner:
        assert runner.name() == "launcher"
        assert runner.scheduler_backends()[0] == "local_cwd"
        assert "local_dir" in runner.scheduler_backends()
    with get_runner("mine") as runner:
        assert runner.name() == "mine"


# Submitting


@pytest.mark.parametrize(
    ("wrong", "meant"), [("detatch", "detach"), ("read_only", "readonly"), ("Name", "name")]
)
def test_a_misspelt_keyword_is_refused_and_a_keyword_of_a_plug_in_passes(wrong: str, meant: str):
    with pytest.raises(LauncherError, match=f"no keyword `{wrong}`") as refused:
        get_runner(**{wrong: True})
    assert refused.value.hint == f"did you mean `{meant}`?"
    get_runner(readonly=True, cache_size=5, region="eu").close()


def test_a_dry_run_prints_the_request_and_can_be_scheduled_more_than_once(runner: Runner):
    info = runner.dryrun(app(), "memory", {"queue": "long"})
    assert repr(info) == "demo on long"
    assert [runner.schedule(info) for _ in range(2)] == ["memory://session/demo-0", "memory://session/demo-1"]


def test_a_dry_run_starts_nothing_and_edits_nothing(runner: Runner, engines: list[MemoryScheduler]):
    given, cfg = app(), {"queue": "long"}
    before = copy.deepcopy((given, cfg))
    runner.dryrun(given, "memory", cfg, parent_run_id="parent-1")
    runner.run(given, "memory", cfg)
    assert (given, cfg) == before
    assert len(engines[0].apps) == 1


def test_the_scheduler_validates_the_app_against_resolved_options(runner, engines):
    runner.dryrun(app(), "memory", {"depth": 3})
    assert engines[0].validated == [{"queue": "short", "depth": 3}]


def test_a_scheduler_with_the_older_validate_signature_gets_no_options():
    class Older(MemoryScheduler):
        def _validate(self, app: AppDef, scheduler: str) -> None:
            self.validated.append({"scheduler": scheduler})

    with Runner("s", {"memory": Older}) as runner:
        runner.dryrun(app(), "memory")
        assert runner._scheduler("memory").validated == [{"scheduler": "memory"}]


@pytest.mark.parametrize("cfg", [{"queu": "long"}, {"depth": "deep"}, {"depth": True}])
def test_wrong_options_are_refused(runner: Runner, cfg: dict[str, object]):
    with pytest.raises(InvalidRunConfigException):
        runner.dryrun(app(), "memory", cfg)


@pytest.mark.parametrize(
    "wrong", [{"entrypoint": ""}, {"entrypoint": "<MISSING>"}, {"num_replicas": 0}, {"min_replicas": 2}]
)
def test_an_app_that_cannot_run_is_refused(runner: Runner, wrong: dict[str, object]):
    with pytest.raises(InvalidAppException, match=f"roles.main.{next(iter(wrong))}: ") as invalid:
        runner.dryrun(app(**wrong), "memory")
    assert isinstance(invalid.value, ValueError), "as users of TorchX catch it"


@pytest.mark.parametrize("name", ["a/b", "..", " a", "a\n", 3])
def test_a_session_that_no_handle_can_name_is_refused(name):
    with pytest.raises(LauncherError):
        get_runner(name)


def test_values_that_are_no_app_or_no_options_are_refused(runner: Runner):
    with pytest.raises(InvalidAppException, match="AppDef"):
        runner.dryrun("demo", "memory")
    for roles in (None, "main", [None]):
        with pytest.raises(InvalidAppException, match="roles are a list of Role"):
            runner.dryrun(AppDef("demo", roles), "memory")
    with pytest.raises(LauncherError, match="dict"):
        runner.dryrun(app(), "memory", "queue=long")
    with pytest.raises(LauncherError, match="names of run options are text, got 1"):
        runner.dryrun(app(), "memory", {1: "long"})


def test_every_problem_of_an_app_is_named_at_once(runner: Runner):
    with pytest.raises(InvalidAppException) as invalid:
        runner.run(app(entrypoint="", num_replicas=0, max_retries=-1), "memory")
    assert len(str(invalid.value).splitlines()) == 4


def test_the_environment_of_replicas_names_the_parent_run(runner, engines, monkeypatch):
    runner.run(app(), "memory", parent_run_id="given")
    monkeypatch.setenv("LAUNCHER_PARENT_RUN_ID", "inherited")
    runner.run(app(), "memory", parent_run_id="given")
    envs = [submitted.roles[0].env for submitted in engines[0].apps.values()]
    assert envs == [{"A": "1", "LAUNCHER_PARENT_RUN_ID": word} for word in ("given", "inherited")]


def test_arguments_of_another_type_are_refused_in_words(runner: Runner):
    with pytest.raises(LauncherError, match="want a dry run, got 'train'"):
        runner.schedule("train")  # type: ignore[arg-type]
    with pytest.raises(LauncherError, match="names no scheduler"):
        runner.schedule(AppDryRunInfo(app(), repr))
    with pytest.raises(UsageError, match="there is no scheduler `None`"):
        runner.dryrun(app(), None)  # type: ignore[arg-type]
    with pytest.raises(LauncherError, match="component is text, got None"):
        runner.run_component(None, [], "memory")  # type: ignore[arg-type]
    with pytest.raises(LauncherError, match="timeout_s is a number of seconds, got '5'"):
        runner.wait("memory://session/demo-0", timeout_s="5")  # type: ignore[arg-type]


# One app


def test_status_returns_what_the_scheduler_reports(runner: Runner):
    status = runner.status(runner.run(app(), "memory"))
    assert (status.state, status.msg, status.num_restarts) == (AppState.RUNNING, "at work", -1)


@pytest.mark.parametrize("handle", ["memory://session/unknown", "memory:///unknown"])
def test_an_unknown_app_has_no_status(runner: Runner, handle: str):
    assert runner.status(handle) is None
    assert runner.wait(handle) is None
    assert runner.describe(handle) is None
    runner.cancel(handle)
    with pytest.raises(UnknownAppException):
        runner.log_lines(handle, "main")


def test_a_handle_may_have_another_session_than_the_runner(runner: Runner):
    runner.run(app(), "memory")
    assert runner.status("memory://vision.prod/demo-0") is not None


@pytest.mark.parametrize(
    "handle", [None, 7, "", "demo-0", "memory://session", "memory:///", "://session/demo"]
)
def test_a_value_that_is_no_handle_is_refused_with_the_right_form(runner: Runner, handle: object):
    with pytest.raises(MalformedAppHandleException) as error:
        runner.status(handle)
    assert "SCHEDULER://" in (error.value.hint or "")


def test_progress_of_images_is_passed_on(runner: Runner, engines: list[MemoryScheduler]):
    events: list[object] = []
    runner._scheduler("memory")
    engines[0].on_progress = None
    runner.on_progress = lambda *what: events.append(what)
    runner.run(app(), "memory")
    engines[0].on_progress("id", "pulling", {})
    assert events == [("id", "pulling", {})]


def test_wait_returns_the_final_status_or_the_present_one_at_its_timeout(runner, engines):
    handle = runner.run(app(), "memory")
    assert not runner.wait(handle, timeout_s=0.05).is_terminal()
    engines[0].apps["demo-0"].state = AppState.SUCCEEDED
    assert runner.wait(handle, 10).state == AppState.SUCCEEDED


def test_cancel_once_called_stop_ends_a_running_app_alone(runner: Runner, engines: list[MemoryScheduler]):
    handles = [runner.run(app(), "memory") for _ in range(2)]
    for _ in range(2):
        runner.cancel(handles[0])
    with pytest.warns(PendingDeprecationWarning, match=r"Runner\.cancel"):
        runner.stop(handles[1])
    assert engines[0].cancelled == ["demo-0", "demo-1"]


def test_describe_returns_the_app(runner: Runner, engines: list[MemoryScheduler]):
    handle = runner.run(app(), "memory")
    assert runner.describe(handle) == AppDef(name="demo-0", roles=app().roles, metadata={"team": "vision"})
    engines[0].apps["demo-0"].name = "demo"
    assert runner.describe(handle) == app()


def test_log_lines_passes_every_argument_to_the_scheduler(runner: Runner, engines: list[MemoryScheduler]):
    handle = runner.run(app(), "memory")
    for streams in (Stream.STDERR, "stderr"):
        lines = runner.log_lines(handle, "main", 2, "regex", should_tail=True, streams=streams)
        assert list(lines) == ["one\n", "two\n"]
    given = ("demo-0", "main", 2, "regex", None, None, True), {"streams": Stream.STDERR}
    assert engines[0].log_calls == [given] * 2


def test_wrong_arguments_of_log_lines_are_refused_at_the_call(runner: Runner):
    handle = runner.run(app(), "memory")
    with pytest.raises(UsageError, match="`stder`"):
        runner.log_lines(handle, "main", streams="stder")
    with pytest.raises(LauncherError, match="regular expression"):
        runner.log_lines(handle, "main", regex="(")
    with pytest.raises(UsageError, match="there is no stream `1`"):
        runner.log_lines(handle, "main", streams=1)


@pytest.mark.parametrize(("name", "value", "want"), [
    ("role_name", None, "text"), ("k", "0", "an integer"), ("k", 1.0, "an integer"),
    ("regex", b"x", "text"), ("since", 60, "a datetime"), ("until", "now", "a datetime"),
])  # fmt: skip
def test_log_lines_refuses_arguments_of_another_type_at_the_call(runner, name: str, value: object, want: str):
    handle = runner.run(app(), "memory")
    with pytest.raises(LauncherError) as refused:
        runner.log_lines(handle, **{"role_name": "main", name: value})
    assert str(refused.value) == f"{name} is {want}, got {value!r}"


# Lists and options


def test_list_returns_the_handle_of_each_app_as_the_scheduler_knows_it(runner, engines):
    handle = runner.run(app(), "memory")
    assert [listed.app_handle for listed in runner.list("memory")] == [handle]
    known = ListAppResponse("train-1-x", AppState.RUNNING, "memory://vision/train-1-x")
    engines[0].list = lambda: [known]
    assert runner.list("memory") == [known]


def test_options_come_from_text_and_later_ones_win(runner: Runner):
    assert set(dict(runner.scheduler_run_opts("memory"))) == {"queue", "depth"}
    assert runner.cfg_from_str("memory", "queue=long,depth=2", "depth=3") == {"queue": "long", "depth": 3}
    assert runner.cfg_from_str("memory") == {}
    with pytest.raises(InvalidRunConfigException):
        runner.cfg_from_str("memory", "queu=long")


def test_a_component_is_run_with_words_or_values(runner: Runner, engines: list[MemoryScheduler]) -> None:
    for given in (["--msg", "hi", "--num_replicas", "2"], {"msg": "hi", "num_replicas": 2}):
        handle = runner.run_component("utils.echo", given, "memory")
        (role,) = runner.describe(handle).roles
        assert (role.entrypoint, role.args, role.num_replicas) == ("echo", ["hi"], 2)


@pytest.mark.parametrize("arguments", ["echo hi", None])
def test_arguments_of_a_component_that_are_no_list_are_refused(runner, engines, arguments):
    with pytest.raises(ComponentArgumentException, match="list of words"):
        runner.run_component("utils.sh", arguments, "memory")
    assert engines == []


def test_defaults_of_components_fill_in_what_the_call_leaves_out(engines: list[MemoryScheduler]) -> None:
    defaults = {"utils.echo": {"msg": "from the file", "num_replicas": "3"}}
    factories = {"memory": lambda name, **params: MemoryScheduler(name, **params)}
    with Runner("test", factories, component_defaults=defaults) as runner:
        (role,) = runner.dryrun_component("utils.echo", ["--num_replicas=1"], "memory").request.roles
    assert (role.args, role.num_replicas) == (["from the file"], 1)
