"""Components that show training metrics: tensorboard."""

from __future__ import annotations

import launcher.specs as specs
from launcher.components.image import IMAGE


def tensorboard(
    logdir: str,
    image: str = IMAGE,
    timeout: float = 60 * 60,
    port: int = 6006,
    start_on_file: str = "",
    exit_on_file: str = "",
) -> specs.AppDef:
    """Runs TensorBoard until a time is up or a file is there. The image must hold tensorboard and launcher.

    Args:
        logdir: folder of the logs to show
        image: image to use
        timeout: how long to run at most, in seconds
        port: port to listen on
        start_on_file: wait for this file before starting
        exit_on_file: stop when this file is there
    """
    return specs.AppDef(
        name="tensorboard",
        roles=[
            specs.Role(
                name="tensorboard",
                image=image,
                entrypoint="python",
                args=[
                    *("-m", "launcher.apps.utils.process_monitor"),
                    *("--timeout", str(timeout)),
                    *("--start_on_file", start_on_file),
                    *("--exit_on_file", exit_on_file),
                    "--",
                    *("python", "-m", "tensorboard.main"),
                    *("--bind_all", "--port", str(port), "--logdir", logdir),
                ],
                port_map={"http": port},
            )
        ],
    )
