"""An installed package that offers schedulers by entry points."""

from pathlib import Path

import pytest

from tests.plugin.package import distribution


def scheduler_plugins(folder: Path, monkeypatch: pytest.MonkeyPatch | None = None, **points: str) -> None:
    """Install it into `folder`: entry points by name, and the module `extra_scheduler`.

    Args:
        monkeypatch: the fixture that puts the folder on the path of this process; else the caller does.
    """
    module = "def create_scheduler(session, **params): return session, params\n"
    module += "def fails(session, **params): raise OSError('no cluster')\n"
    (folder / "extra_scheduler.py").write_text(module)
    distribution(folder, "extra", "launcher.schedulers", points)
    if monkeypatch is not None:
        monkeypatch.syspath_prepend(str(folder))
