"""Public names of a package that load their module when they are used (PEP 562)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def on_use(
    package: str, homes: Mapping[str, str], *others: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Args:
        homes: see `load`.
        others: public names that the package defines itself.
    """
    return lambda name: load(package, homes, name), lambda: sorted((*homes, *others))


def load(package: str, homes: Mapping[str, str], name: str) -> object:
    """A public name of a package.

    Args:
        homes: public name → the module that defines it, below the package or with a full name.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from importlib import import_module

    home = homes[name]
    return getattr(import_module(home if home.startswith("launcher.") else f"{package}.{home}"), name)
