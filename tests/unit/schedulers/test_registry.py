"""Names of schedulers."""

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.errors import SchedulerError
from launcher.runner import get_runner
from launcher.schedulers import (
    DEFAULT_SCHEDULERS,
    get_default_scheduler_name,
    get_scheduler,
    get_scheduler_factories,
)
from launcher.schedulers.registry import APP_SOURCES, SHARED_ENGINES, imported
from launcher.specs import UnknownSchedulerException
from launcher.specs.jobkey import DEFAULT_SCHEDULER
from tests.unit.schedulers.plugins import scheduler_plugins


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a scheduler `extra`, a module as one, and one by a name of ours."""
    points = {"extra": "extra_scheduler:create_scheduler", "module": "extra_scheduler"}
    scheduler_plugins(tmp_path, monkeypatch, **points, local_cwd="extra_scheduler")


def test_local_cwd_is_the_default() -> None:
    assert get_default_scheduler_name() == DEFAULT_SCHEDULER == "local_cwd"


def test_the_table_of_shared_engines_says_what_the_schedulers_say() -> None:
    named = {name: imported(home)() for name, home in SHARED_ENGINES.items()}
    assert named | {name: "" for name in DEFAULT_SCHEDULERS if name not in named} == {
        name: get_scheduler(name, "").shared_engine for name in DEFAULT_SCHEDULERS
    }
    assert next(iter(get_scheduler_factories())) == "local_cwd"


def test_the_apps_of_every_built_in_scheduler_have_a_source() -> None:
    made, known = (
        {home.split(".")[2] for home in each.values()} for each in (DEFAULT_SCHEDULERS, APP_SOURCES)
    )
    assert made == known, "add a line to APP_SOURCES: without it, a rebuilt store lacks its apps"


def test_factories_make_schedulers_of_their_name() -> None:
    factories = get_scheduler_factories()
    made = [factories[name]("session") for name in ("local_cwd", "local_dir")]
    assert [scheduler.backend for scheduler in made] == ["local_cwd", "local_dir"]
    assert {scheduler.session_name for scheduler in made} == {"session"}


def test_factories_ignore_parameters_of_other_schedulers() -> None:
    assert get_scheduler("local_cwd", "session", cache_size=3).backend == "local_cwd"


@pytest.mark.usefixtures("plugin")
def test_entry_points_add_to_the_built_in_schedulers_and_take_none_of_their_names() -> None:
    factories = get_scheduler_factories()
    assert list(factories) == [*DEFAULT_SCHEDULERS, "extra", "module"]
    assert factories["extra"]("s", a=1) == ("s", {"a": 1})
    assert factories["module"]("s") == ("s", {})
    assert get_scheduler("local_cwd", "s").backend == "local_cwd"


@pytest.mark.usefixtures("plugin")
def test_the_built_in_schedulers_can_be_skipped() -> None:
    assert set(get_scheduler_factories(skip_defaults=True)) == {"local_cwd", "extra", "module"}
    assert dict(get_scheduler_factories(group="launcher.none", skip_defaults=True)) == {}


@pytest.mark.parametrize(("value", "why"), [
    ("no_such_module:create", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("extra_scheduler:gone", "AttributeError: module 'extra_scheduler' has no attribute 'gone'"),
    ("extra_scheduler:fails", "OSError: no cluster"),
])  # fmt: skip
def test_a_broken_plug_in_is_one_error_that_names_it(tmp_path, monkeypatch, value, why):
    scheduler_plugins(tmp_path, monkeypatch, broken=value)
    output = f"the scheduler `broken` cannot be loaded from {value}: {why}"
    for ask in (lambda: get_scheduler("broken", "s"), lambda: get_runner().scheduler_run_opts("broken")):
        with pytest.raises(SchedulerError) as error:
            ask()
        assert str(error.value) == output
        assert "launcher.schedulers" in str(error.value.hint)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownSchedulerException) as error:
        get_scheduler("local_cw", "s")
    assert "`local_cwd`" in str(error.value.hint)


def test_a_built_in_name_costs_no_search_for_entry_points_and_no_slow_import() -> None:
    code = (
        "import sys; from launcher.schedulers.registry import get_scheduler; get_scheduler('local_cwd', 's');"
        " slow = {'importlib.metadata', 'dataclasses', 'enum', 'typing', 're', '_sqlite3', 'subprocess'};"
        " print(sorted(slow & set(sys.modules)))"
    )
    argv = [sys.executable, "-S", "-c", code]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "[]\n"
