"""Components that put models into service: torchserve."""

from __future__ import annotations

import launcher.specs as specs
from launcher.components.image import IMAGE


def torchserve(
    model_path: str,
    management_api: str,
    image: str = IMAGE,
    params: dict[str, object] | None = None,
    dryrun: bool = False,
) -> specs.AppDef:
    """Registers a model with a TorchServe instance. The image must hold launcher.

    Args:
        model_path: path of the model archive
        management_api: address of the management API, such as http://localhost:8081
        image: image to use
        params: further parameters of the registration: initial_workers=2,batch_size=4
        dryrun: whether to print the registration instead of making it
    """
    args = ["-m", "launcher.apps.serve.serve"]
    args += ["--model_path", model_path, "--management_api", management_api]
    for key, value in (params or {}).items():
        args += [f"--{key}", str(value)]
    return specs.AppDef(
        name="launcher-torchserve",
        roles=[
            specs.Role(
                name="worker",
                image=image,
                entrypoint="python",
                args=[*args, *(["--dryrun"] if dryrun else [])],
                port_map={"model-download": 8222},
                resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
            )
        ],
    )
