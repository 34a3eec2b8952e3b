"""Modules beside a component file: importable only while the component's code runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import invalidate_caches
from types import ModuleType


class Neighbours:
    """The modules in the folder of one component file. Each file has its own, as another folder may have a
    `common.py` too."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Put the folder first on sys.path, and restore sys.path and sys.modules afterwards.

        No bytecode is written meanwhile: it would change the folder, which may be the job's workspace.
        """
        writes_no_bytecode = sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        before = {name.partition(".")[0] for name in sys.modules}
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
        sys.path.insert(0, self._folder)
        invalidate_caches()
        try:
            yield
        finally:
            sys.dont_write_bytecode = writes_no_bytecode
            with suppress(ValueError):  # the user's code may have removed it
                sys.path.remove(self._folder)
            self._take_back(before)

    def _take_back(self, before: set[str]) -> None:
        found = [name for name in sys.modules if name.partition(".")[0] not in before]
        ours = {name for name in found if "." not in name and self._holds(sys.modules[name])}
        for name in found:
            if name.partition(".")[0] in ours:
                self._modules[name] = sys.modules.pop(name)

    def _holds(self, module: ModuleType) -> bool:
        """Whether a top-level module stands in the folder itself: a `.venv` below it does not count."""
        file = getattr(module, "__file__", None)
        places = [file] if file else list(getattr(module, "__path__", ()))
        if file and hasattr(module, "__path__"):
            places = [os.path.dirname(file)]
        return any(os.path.dirname(place) == self._folder for place in places)
