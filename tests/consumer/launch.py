"""What a program of ours looks like from outside: typed throughout, checked with `mypy --strict`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

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
from launcher.specs import (
    AppDef,
    AppDryRunInfo,
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
