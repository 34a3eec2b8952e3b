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
