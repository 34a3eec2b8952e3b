"""launcher: a declarative, job-file driven launcher for work that runs to completion.

The public names are loaded on first use, so that `import launcher` costs nothing:

    launch = launcher.load_job("train.launcher.yaml", vars={"epochs": 5}, target="dev")
    plan = launcher.make_plan([launch])
    result = launcher.apply_plan(plan, wait=True)
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.apply import apply_plan, make_plan
    from launcher.components.image import IMAGE
    from launcher.jobfile import load_job
    from launcher.runner import Runner, get_runner
    from launcher.specs import AppDef, Resource, Role

__all__ = [
    "IMAGE",
    "AppDef",
    "Resource",
    "Role",
    "Runner",
    "__version__",
    "apply_plan",
    "get_runner",
    "load_job",
    "make_plan",
]

_HOMES = {
    "IMAGE": "launcher.components.image",
    "AppDef": "launcher.specs",
    "Role": "launcher.specs",
    "Resource": "launcher.specs",
    "Runner": "launcher.runner",
    "get_runner": "launcher.runner",
    "load_job": "launcher.jobfile",
    "make_plan": "launcher.apply",
    "apply_plan": "launcher.apply",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'launcher' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
