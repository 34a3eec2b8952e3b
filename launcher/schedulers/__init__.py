"""Schedulers, which run apps. The names here are loaded on first use: each costs only its own module."""

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.api import Scheduler as Scheduler, SchedulerFactory as SchedulerFactory
    from launcher.schedulers.registry import (
        DEFAULT_SCHEDULER_MODULES as DEFAULT_SCHEDULER_MODULES,
        DEFAULT_SCHEDULERS as DEFAULT_SCHEDULERS,
        get_default_scheduler_name as get_default_scheduler_name,
        get_scheduler as get_scheduler,
        get_scheduler_factories as get_scheduler_factories,
    )
    from launcher.schedulers.responses import (
        DescribeAppResponse as DescribeAppResponse,
        ListAppResponse as ListAppResponse,
        Stream as Stream,
    )
    from launcher.schedulers.staged import StagedScheduler as StagedScheduler

__getattr__, __dir__, __all__ = hand_on(
    __name__,
    {
        "api": "Scheduler SchedulerFactory",
        "registry": (
            "DEFAULT_SCHEDULERS DEFAULT_SCHEDULER_MODULES get_default_scheduler_name get_scheduler "
            "get_scheduler_factories"
        ),
        "responses": "DescribeAppResponse ListAppResponse Stream",
        "staged": "StagedScheduler",
    },
)
