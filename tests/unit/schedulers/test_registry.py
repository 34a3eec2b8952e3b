"""Names of schedulers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.schedulers import get_default_scheduler_name, get_scheduler, get_scheduler_factories
from launcher.specs import UnknownSchedulerException


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a scheduler `extra`, a module as one, and one by a name of ours."""
    module = "def create_scheduler(session, **params): return session, params\n"
    (tmp_path / "extra_scheduler.py").write_text(module)
    info = tmp_path / "extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: extra\nVersion: 1.0\n")
    points = [
        "extra = extra_scheduler:create_scheduler",
        "module = extra_scheduler",
        "local_cwd = extra_scheduler",
    ]
    (info / "entry_points.txt").write_text("\n".join(["[launcher.schedulers]", *points]))
    monkeypatch.syspath_prepend(str(tmp_path))


def test_local_cwd_is_the_default() -> None:
    assert get_default_scheduler_name() == "local_cwd"
    assert next(iter(get_scheduler_factories())) == "local_cwd"


def test_factories_make_schedulers_of_their_name() -> None:
    factories = get_scheduler_factories()
    made = [factories[name]("session") for name in ("local_cwd", "local_dir")]
    assert [scheduler.backend for scheduler in made] == ["local_cwd", "local_dir"]
    assert {scheduler.session_name for scheduler in made} == {"session"}


def test_factories_ignore_parameters_of_other_schedulers() -> None:
    assert get_scheduler("local_cwd", "session", cache_size=3).backend == "local_cwd"


@pytest.mark.usefixtures("plugin")
def test_entry_points_add_to_ours() -> None:
    factories = get_scheduler_factories()
    assert list(factories) == ["local_cwd", "local_dir", "local_docker", "extra", "module"]
    assert factories["extra"]("s", a=1) == ("s", {"a": 1})
    assert factories["module"]("s") == ("s", {})


@pytest.mark.usefixtures("plugin")
def test_an_entry_point_does_not_take_a_name_of_ours() -> None:
    assert get_scheduler("local_cwd", "s").backend == "local_cwd"


@pytest.mark.usefixtures("plugin")
def test_ours_can_be_skipped() -> None:
    assert set(get_scheduler_factories(skip_defaults=True)) == {"local_cwd", "extra", "module"}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownSchedulerException) as error:
        get_scheduler("local_cw", "s")
    assert "`local_cwd`" in str(error.value.hint)


def test_a_name_of_ours_costs_no_search_for_entry_points_and_no_slow_import() -> None:
    code = (
        "import sys; from launcher.schedulers.registry import get_scheduler; get_scheduler('local_cwd', 's');"
        " slow = {'importlib.metadata', 'dataclasses', 'enum', 'typing', 're', 'sqlite3', 'subprocess'};"
        " print(sorted(slow & set(sys.modules)))"
    )
    argv = [sys.executable, "-S", "-c", code]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "[]\n"
