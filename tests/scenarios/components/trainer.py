# A component file as people have them: typed arguments with defaults, one role, macros in its arguments.
# Only the two imports name the launcher.
from typing import Dict, Optional  # noqa: UP035

import launcher.specs as specs
from launcher.specs import macros


def trainer(
    image: str,
    epochs: int = 1,
    lr: float = 0.1,
    resume: bool = False,
    seed: Optional[int] = None,  # noqa: UP045
    env: Optional[Dict[str, str]] = None,  # noqa: UP006, UP045
) -> specs.AppDef:
    """Trains a model.

    On one replica.

    Args:
        image: image to use
        epochs: passes over the data
        lr: learning rate
        resume: whether to go on from the last checkpoint
        seed: seed of the generators
        env: more environment variables
    """
    return specs.AppDef(
        name="trainer",
        roles=[
            specs.Role(
                name="trainer",
                image=image,
                entrypoint="sh",
                args=[
                    "-c",
                    'echo "$0 $MODE"; test "$0" = "$APP epochs=3 lr=0.1 resume=True seed=7"',
                    f"{macros.app_id} epochs={epochs} lr={lr} resume={resume} seed={(seed or 0) + 1}",
                ],
                env={"APP": macros.app_id, **(env or {})},
                resource=specs.Resource(cpu=1, gpu=0, memMB=128),
                retry_policy=specs.RetryPolicy.APPLICATION,
                max_retries=0,
            )
        ],
    )
