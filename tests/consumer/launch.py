"""A program that uses launcher as a library: typed throughout, checked with `mypy --strict`."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import launcher
from launcher.components import (
    ComponentArgumentException,
    ComponentFunctionValidator,
    LinterMessage,
    get_component,
    get_components,
    materialize_appdef,
    validate,
)
from launcher.components.dist import ddp
from launcher.components.structured_arg import StructuredJArgument
from launcher.errors import LauncherError
from launcher.runner import Runner, config, get_runner
from launcher.schedulers import ListAppResponse, Stream, get_scheduler, get_scheduler_factories
from launcher.schedulers.api import AppDryRunInfo, DescribeAppResponse, Scheduler, filter_regex
from launcher.specs import (
    AppDef,
    AppHandle,
    AppState,
    AppStatus,
    BindMount,
    CfgVal,
    Resource,
    RetryPolicy,
    Role,
    VolumeMount,
    macros,
    named_resources,
    parse_app_handle,
    runopts,
)
from launcher.workspace import Workspace


def trainer(image: str, *script_args: str, replicas: int = 2) -> AppDef:
    """Train on some replicas.

    Args:
        image: where to run
        script_args: arguments of the script
        replicas: how many
    """
    role = Role(
        name="trainer",
        image=image,
        entrypoint="python",
        args=["train.py", "--run", macros.app_id, "--rank", macros.replica_id, *script_args],
        env={"OMP_NUM_THREADS": "4"},
        num_replicas=replicas,
        max_retries=1,
        retry_policy=RetryPolicy.APPLICATION,
        resource=Resource(cpu=2, gpu=0, memMB=4096),
        mounts=[BindMount("/data", "/data", read_only=True), VolumeMount("cache", "/cache")],
    )
    return AppDef("train", roles=[role], metadata={"team": "vision"})


class Tagged(Role):
    """A role that changes the request before it is sent."""

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
        self.metadata["sent to"] = scheduler
        return super().pre_proc(scheduler, dryrun_info)


class Queue(Scheduler[list[str]]):
    """A custom scheduler, written as for TorchX."""

    def __init__(self, session_name: str, **_: object) -> None:
        super().__init__("queue", session_name)

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[list[str]]:
        return AppDryRunInfo([role.entrypoint for role in app.roles], repr)

    def schedule(self, dryrun_info: AppDryRunInfo[list[str]]) -> str:
        return dryrun_info.request[0]

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return DescribeAppResponse(app_id=app_id, state=AppState.SUCCEEDED)

    def list(self) -> list[ListAppResponse]:
        return [ListAppResponse(app_id="a", state=AppState.SUCCEEDED)]

    def _cancel_existing(self, app_id: str) -> None:
        print("cancelled", app_id)

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        lines = ["one\n", "two\n"]
        return filter_regex(regex, lines) if regex else lines


def in_a_queue() -> AppHandle:
    app = AppDef("tagged", [Tagged("worker", launcher.IMAGE, entrypoint="true")])
    app.roles[0].metadata["team"] = "vision"
    with Runner("mine", {"queue": Queue}, component_defaults=config.load_sections("component")) as runner:
        handle = runner.run(app, "queue")
        print(next(runner.log_lines(handle, "worker")))
    return handle


def submit(runner: Runner, app: AppDef) -> AppHandle:
    info: AppDryRunInfo[object] = runner.dryrun(app, "local_cwd", cfg={"grace_s": 1.0})
    print(info)
    return runner.schedule(info)


def follow(runner: Runner, handle: AppHandle) -> Iterator[str]:
    since = datetime.now(timezone.utc) - timedelta(minutes=1)
    yield from runner.log_lines(handle, "trainer", 0, since=since, should_tail=True, streams=Stream.STDOUT)


class Short(ComponentFunctionValidator):
    """Components fit the eye."""

    def validate(self, app_specs_func_def: ast.FunctionDef) -> list[LinterMessage]:
        return [self.message("too long", app_specs_func_def)] if len(app_specs_func_def.body) > 20 else []


def by_name(runner: Runner) -> AppHandle | None:
    """Components by name: with words, and with values."""
    mistakes: list[str] = [found.description for found in validate("train.py", "trainer", [Short()])]
    print(sorted(get_components()), mistakes, StructuredJArgument.parse_from("gpu.small", "2").nproc_per_node)
    cfg: dict[str, CfgVal] = {"grace_s": 1.0}
    config.apply("local_cwd", cfg)
    try:
        info = runner.dryrun_component("utils.sh", ["--num_replicas", "2", "--", "date"], "local_cwd", cfg)
        print(info.request)
        return runner.run_component("utils.echo", {"msg": "hi", "num_replicas": 2}, "local_cwd", cfg)
    except ComponentArgumentException as error:
        print([problem.name for problem in error.problems])
    except LauncherError as error:
        print(error, error.hint)
    return None


def main() -> bool:
    options: runopts = get_scheduler("local_cwd", "mine").run_opts()
    schedulers: list[str] = list(get_scheduler_factories())
    component = get_component("utils.echo")
    app: AppDef = materialize_appdef(component.fn, ["--msg", "hello"])
    with get_runner(component_defaults=config.component_defaults()) as runner:
        print(by_name(runner))
        handle = submit(runner, app)
        status: AppStatus | None = runner.wait(handle, timeout_s=60)
        apps: list[ListAppResponse] = runner.list("local_cwd")
        lines = list(follow(runner, handle))
    parsed = parse_app_handle(handle)
    workspace = Workspace({".": "", "../lib": "lib"})
    launch = launcher.load_job("train.launcher.yaml", vars={"epochs": 5}, target="dev")
    plan = launcher.make_plan([launch])
    result = launcher.apply_plan(plan, wait=True)
    print(len(options), schedulers, apps, lines, parsed.app_id, workspace, plan, result.exit_code)
    print(ddp(script="train.py", j="2x2"), named_resources["cpu.small"].memMB)
    return status is not None and status.state == AppState.SUCCEEDED
