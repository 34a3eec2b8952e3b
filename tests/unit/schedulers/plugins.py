"""An installed package that offers schedulers by entry points."""

from pathlib import Path

import pytest


def scheduler_plugins(folder: Path, monkeypatch: pytest.MonkeyPatch | None = None, **points: str) -> None:
    """Install it into `folder`: entry points by name, and the module `extra_scheduler`.

    Args:
        monkeypatch: the fixture that puts the folder on the path of this process; else the caller does.
    """
    module = "def create_scheduler(session, **params): return session, params\n"
    module += "def fails(session, **params): raise OSError('no cluster')\n"
    (folder / "extra_scheduler.py").write_text(module)
    info = folder / "extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: extra\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[launcher.schedulers]", *lines]))
    if monkeypatch is not None:
        monkeypatch.syspath_prepend(str(folder))
