"""Schedulers, which run apps. The names here are loaded on first use: each costs only its own module."""

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.api import Scheduler, SchedulerFactory
    from launcher.schedulers.registry import (
        DEFAULT_SCHEDULER_MODULES,
        DEFAULT_SCHEDULERS,
        get_default_scheduler_name,
        get_scheduler,
        get_scheduler_factories,
    )
    from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse, Stream
    from launcher.schedulers.staged import StagedScheduler

__all__ = [
    "DEFAULT_SCHEDULERS",
    "DEFAULT_SCHEDULER_MODULES",
    "DescribeAppResponse",
    "ListAppResponse",
    "Scheduler",
    "SchedulerFactory",
    "StagedScheduler",
    "Stream",
    "get_default_scheduler_name",
    "get_scheduler",
    "get_scheduler_factories",
]

_HOMES = {
    "Scheduler": "api",
    "StagedScheduler": "staged",
    "DescribeAppResponse": "responses",
    "ListAppResponse": "responses",
    "Stream": "responses",
    "SchedulerFactory": "api",
    "DEFAULT_SCHEDULERS": "registry",
    "DEFAULT_SCHEDULER_MODULES": "registry",
    "get_default_scheduler_name": "registry",
    "get_scheduler": "registry",
    "get_scheduler_factories": "registry",
}

__getattr__, __dir__ = hand_on(__name__, _HOMES)
