"""Puts the example's package on the path: its module, and the metadata that an installer would write."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.package import EXAMPLE, install


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, for this process and for the commands that it starts."""
    site = tmp_path / "site"
    install(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(site))
    yield
    for module in EXAMPLE.glob("*.py"):
        sys.modules.pop(module.stem, None)
