"""Schedulers of installed packages: load them by entry points, and make errors of their faults.

Commands guard such a scheduler: an exception of its code, or a value of another type than the contract has,
becomes a PluginError, which hides no other scheduler. A program's Runner has the scheduler as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from threading import local
from types import FunctionType, GeneratorType, NoneType
from typing import Any, TypeVar

from launcher.errors import LauncherError, SchedulerError, said_by
from launcher.looks import not_repeatable
from launcher.schedulers.api import Scheduler, SchedulerFactory
from launcher.schedulers.readback import AppLogs
from launcher.schedulers.record import SeenApp
from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse
from launcher.schedulers.staged import Reservation
from launcher.specs.app import AppDryRunInfo
from launcher.specs.attempt import Attempt
from launcher.specs.runopts import runopts
from launcher.specs.status import AppState
from launcher.state.records import ENDED, LIVE, AppRecord, ReplicaRecord

_FORMAT = "fmt of AppDryRunInfo"

_ANSWERS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("run_opts", "_run_opts"), (runopts,)),
    **dict.fromkeys(("submit_dryrun", "_submit_dryrun"), (AppDryRunInfo,)),
    **dict.fromkeys(("describe", "wait"), (DescribeAppResponse, NoneType)),
    **dict.fromkeys(("reserve", "claim"), (Reservation,)),
    **dict.fromkeys(("list", "records", "finished"), (list, tuple)),
    **dict.fromkeys(("schedule", "fingerprint", _FORMAT), (str,)),
    **dict.fromkeys(("record", "wait_record"), (AppRecord, NoneType)),
    **dict.fromkeys(("attempt", "ended_attempt"), (Attempt, NoneType)),
    "read": (SeenApp, NoneType),
    "replica": (ReplicaRecord,),
    "logs": (AppLogs,),
}
"""Method of the contract → the types of its answer."""

_ITEMS = {"list": ListAppResponse, "records": AppRecord, "finished": AppRecord}
"""Method whose answer is a list → the type of its items."""

_STATES: dict[type, tuple[str, ...]] = {
    AppRecord: (*LIVE, *ENDED, "unknown"),
    ReplicaRecord: ("pending", "running", "succeeded", "failed", "cancelled", "lost"),
}

_END = object()
_Any = TypeVar("_Any")


class PluginError(SchedulerError):
    """A scheduler of an installed package raised an exception, or gave a value of another type."""


def factories(group: str) -> dict[str, SchedulerFactory]:
    """The factories of installed packages, by name. Calling a broken one raises SchedulerError."""
    return {point.name: _deferred(point) for point in entry_points(group=group)}


def _deferred(point: EntryPoint) -> SchedulerFactory:
    def factory(session_name: str, **params: Any) -> Scheduler[Any]:
        not_repeatable()
        try:
            loaded = point.load()
            # An entry point may name a module, as TorchX allowed: then its create_scheduler is meant.
            made: Scheduler[Any] = getattr(loaded, "create_scheduler", loaded)(session_name, **params)
        except LauncherError:
            raise
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
            raise SchedulerError(
                f"the scheduler `{point.name}` cannot be loaded from {point.value}: {why}",
                hint=f"the installed package that offers it (entry point of {point.group}) is broken",
            ) from error
        return made

    return factory


def guarding(factory: SchedulerFactory, name: str) -> SchedulerFactory:
    """Return a factory whose schedulers are guarded. It raises PluginError for anything but a scheduler."""

    def guarded_scheduler(session_name: str, **params: Any) -> Scheduler[Any]:
        made = factory(session_name, **params)
        if not isinstance(made, Scheduler):
            raise PluginError(f"the scheduler `{name}` failed: its factory returned {type(made).__name__}")
        return _guarded(made, name)

    return guarded_scheduler


def _guarded(made: _Any, name: str) -> _Any:
    """Guard what the classes of a plug-in define of launcher's contract, in a scheduler or a value of one."""
    contract = {method for kind in type(made).__mro__ if _is_ours(kind) for method in vars(kind)}
    for kind in type(made).__mro__:
        for method, function in vars(kind).items():
            is_of_contract = method in contract and not method.startswith("__")
            if isinstance(function, FunctionType) and is_of_contract and not _is_ours(kind):
                with suppress(AttributeError):  # an object with slots stays as it is
                    setattr(made, method, _guard(getattr(made, method), method, name))
    return made


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "launcher"


class _Border(local):
    """Whether this thread runs code of a plug-in, which gets its own exceptions when it calls itself."""

    is_inside = False


_border = _Border()


def _guard(call: Callable[..., Any], method: str, name: str) -> Callable[..., Any]:
    if hasattr(call, "__wrapped__"):  # of an object that the plug-in has given before
        return call

    @functools.wraps(call)
    def guard(*args: Any, **kwargs: Any) -> Any:
        if _border.is_inside:
            return call(*args, **kwargs)
        answer = _crossing(lambda: call(*args, **kwargs), call, name)
        if fault := _fault(answer, method):
            raise PluginError(f"the scheduler `{name}` failed: `{method}` returned {fault}")
        if isinstance(answer, AppDryRunInfo):
            answer._fmt = _guard(answer._fmt, _FORMAT, name)
        return _items(answer, call, name) if isinstance(answer, GeneratorType) else _guarded(answer, name)

    return guard


def _crossing(step: Callable[[], Any], call: Callable[..., Any], name: str) -> Any:
    """Run a step of a plug-in's method. Raises PluginError for an exception that is none of launcher's."""
    _border.is_inside = True
    try:
        return step()
    except LauncherError:
        raise
    except (Exception, SystemExit) as error:
        code = getattr(inspect.unwrap(call), "__code__", None)
        why = said_by(error, code.co_filename if code else "")
        raise PluginError(f"the scheduler `{name}` failed: {why}") from error
    finally:
        _border.is_inside = False


def _items(answer: Iterator[Any], call: Callable[..., Any], name: str) -> Iterator[Any]:
    while (item := _crossing(lambda: next(answer, _END), call, name)) is not _END:
        yield item


def _fault(answer: Any, method: str) -> str:
    """The problem of an answer, in words that follow "returned"; "" for a valid one."""
    kinds = _ANSWERS.get(method)
    if kinds is None:
        return ""
    if not isinstance(answer, kinds):
        wanted = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)
        return f"{type(answer).__name__}, not {wanted}"
    items: Any = answer if method in _ITEMS else [answer]
    for item in items:
        if method in _ITEMS and not isinstance(item, _ITEMS[method]):
            return f"a list with {type(item).__name__} in it, not only {_ITEMS[method].__name__}"
        if isinstance(item, (DescribeAppResponse, ListAppResponse)) and not isinstance(item.state, AppState):
            return f"the state {item.state!r}, not an AppState"
        states = next((known for kind, known in _STATES.items() if isinstance(item, kind)), None)
        if states is not None and item.state not in states:
            return f"the state {item.state!r}, not one of {', '.join(states)}"
    return ""
