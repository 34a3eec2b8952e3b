"""The import path under which the local scheduler is known; it lives in launcher.schedulers.local.

For programs written for TorchX; launcher itself does not import it.
"""

from launcher.schedulers.ids import make_unique as make_unique
from launcher.schedulers.local import rundir
from launcher.schedulers.local.popen import (
    LocalOpts as LocalOpts,
    PopenRequest as PopenRequest,
    ReplicaParam as ReplicaParam,
)
from launcher.schedulers.local.request import (
    ENV_CUDA_VISIBLE_DEVICES as ENV_CUDA_VISIBLE_DEVICES,
    CWDImageProvider as CWDImageProvider,
    ImageProvider as ImageProvider,
    LocalDirectoryImageProvider as LocalDirectoryImageProvider,
)
from launcher.schedulers.local.scheduler import (
    LocalScheduler as LocalScheduler,
    create_scheduler as create_scheduler,
)

COMBINED_LOG, STDERR_LOG, STDOUT_LOG = rundir.COMBINED, rundir.STDERR, rundir.STDOUT
