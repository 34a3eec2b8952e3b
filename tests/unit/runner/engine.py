"""A scheduler that keeps its apps in memory: small enough to see what the Runner asks of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.schedulers.api import Scheduler
from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse
from launcher.specs import AppDef, AppDryRunInfo, AppState, CfgVal, runopts


class MemoryScheduler(Scheduler[AppDef]):
    """A scheduler whose apps run until the test sets their state."""

    def __init__(self, session_name: str, **params: Any) -> None:
        super().__init__("memory", session_name)
        self.params = params
        self.apps: dict[str, DescribeAppResponse] = {}
        self.closed = 0
        self.cancelled: list[str] = []
        self.validated: list[Mapping[str, CfgVal]] = []
        self.log_calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def _run_opts(self) -> runopts:
        opts = runopts()
        opts.add("queue", type_=str, help="where to stand in line", default="short")
        opts.add("depth", type_=int, help="how deep", default=1)
        return opts

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        self.validated.append(cfg)

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[AppDef]:
        return AppDryRunInfo(app, lambda request: f"{request.name} on {cfg['queue']}")

    def schedule(self, dryrun_info: AppDryRunInfo[AppDef]) -> str:
        app = dryrun_info.request
        app_id = f"{app.name}-{len(self.apps)}"
        self.apps[app_id] = DescribeAppResponse(
            app_id=app_id, state=AppState.RUNNING, roles=app.roles, metadata=app.metadata, msg="at work"
        )
        return app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return self.apps.get(app_id)

    def list(self) -> list[ListAppResponse]:
        return [ListAppResponse(app_id=app_id, state=app.state) for app_id, app in self.apps.items()]

    def _cancel_existing(self, app_id: str) -> None:
        self.cancelled.append(app_id)
        self.apps[app_id].state = AppState.CANCELLED

    def log_iter(self, *args: Any, **kwargs: Any) -> Iterator[str]:
        self.log_calls.append((args, kwargs))
        return iter(["one\n", "two\n"])

    def close(self) -> None:
        self.closed += 1
