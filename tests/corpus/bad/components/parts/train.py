"""A component file: an app with a role for each of its names."""

from __future__ import annotations

from launcher.specs import AppDef, Role


def train(names: list[str], lr: float = 0.1, env: dict[str, str] | None = None) -> AppDef:
    """Trains under several names.

    Args:
        names: of the roles
        lr: learning rate
        env: environment variables
    """
    roles = [Role(name, "", entrypoint="echo", args=[str(lr)], env=dict(env or {})) for name in names]
    return AppDef("train", roles)


def untyped(names) -> AppDef: ...


def fails() -> AppDef:
    """Fails."""
    raise ValueError("it always does")


def nameless() -> AppDef:
    """Makes what cannot run."""
    return AppDef("nameless", [Role("main", "")])


_CALLS: list[int] = []


def counting() -> AppDef:
    """Makes another app each time."""
    _CALLS.append(1)
    return AppDef("counting", [Role("main", "", entrypoint="echo", args=["x", str(len(_CALLS))])])
