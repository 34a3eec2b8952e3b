# A component file that builds on one of ours, and reads a mapping and pairs.
import os
from typing import Dict, List  # noqa: UP035

from launcher.components.utils import sh
from launcher.specs import AppDef, resource


def sweep(params: Dict[str, float], tags: List[str] = []) -> AppDef:  # noqa: B006, UP006
    """Tries parameters.

    :param params: name and value of each
    :param tags: for people
    """
    assert os.path.basename(__file__) == "sweep.py"
    app = sh("echo", *(f"{key}={value}" for key, value in sorted(params.items())), cpu=1, env={"A": "1"})
    app.name = "sweep"
    app.metadata["tags"] = ",".join(tags)
    app.roles[0].resource = resource(cpu=1, memMB=64)
    return app
