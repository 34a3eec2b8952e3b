"""Components for distributed PyTorch: ddp and spmd, both by torchrun."""

from __future__ import annotations

import shlex

import launcher.specs as specs
from launcher.components.image import TORCH_IMAGE
from launcher.components.structured_arg import (
    StructuredJArgument,
    StructuredNameArgument,
    get_role_name,
    parse_nnodes,
)
from launcher.specs.macros import macros

_TORCH_DEBUG_FLAGS = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DESYNC_DEBUG": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}


def ddp(
    *script_args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = TORCH_IMAGE,
    name: str = "/",
    h: str | None = None,
    cpu: int = 2,
    gpu: int = 0,
    memMB: int = 1024,
    j: str = "1x2",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    rdzv_port: int = 29500,
    rdzv_backend: str = "c10d",
    rdzv_conf: str | None = None,
    mounts: list[str] | None = None,
    debug: bool = False,
    tee: int = 3,
) -> specs.AppDef:
    """Distributed data parallel training: a torchrun on each node, all of them in one group.

    Args:
        script_args: arguments of the script or module
        script: script to run, within the image
        m: module to run, instead of a script
        image: image with torchrun
        name: name of the job as EXPERIMENT/RUN, each with a default
        h: a named resource, instead of cpu, gpu and memMB
        cpu: number of cpus per replica
        gpu: number of gpus per replica
        memMB: memory per replica, in MiB
        j: nodes x processes per node: 2x4; elastic as 1:2x4; 4 is one node with four processes
        env: environment variables: ENV1=v1,ENV2=v2
        max_retries: how often to start again what failed
        rdzv_port: port of the rendezvous on replica 0, where there is more than one node
        rdzv_backend: backend of the rendezvous
        rdzv_conf: more configuration of the rendezvous: K=v,L=w
        mounts: mounts, such as type=bind,src=/host,dst=/job,readonly
        debug: whether to run with PyTorch's debug flags
        tee: which outputs of the workers go to files and console too: 0 none, 1 stdout, 2 stderr, 3 both
    """
    if (script is None) == (m is None):
        raise ValueError("exactly one of --script and -m must be given")
    min_nnodes, max_nnodes, nproc, nnodes = parse_nnodes(j)
    named = StructuredNameArgument.parse_from(name, m=m, script=script)
    host = f"$${{{macros.rank0_env}:=localhost}}"  # for the shell, which reads ${THAT_VARIABLE:=localhost}
    endpoint = "localhost:0" if max_nnodes == 1 else f"{host}:{rdzv_port}"
    options = {
        "rdzv_backend": rdzv_backend,
        **({"rdzv_conf": rdzv_conf} if rdzv_conf else {}),
        "rdzv_endpoint": endpoint,
        "rdzv_id": macros.app_id,
        "nnodes": nnodes,
        "nproc_per_node": str(nproc),
        "tee": str(tee),
        "role": "",
        **({"node_rank": macros.replica_id} if rdzv_backend == "static" else {}),
    }
    words = ["torchrun"]
    for option, value in options.items():
        # The shell expands the endpoint, and nothing else.
        words += [f"--{option}", value if option == "rdzv_endpoint" else shlex.quote(value)]
    words += map(shlex.quote, [*([script] if script else ["-m", m or ""]), *script_args])
    return specs.AppDef(
        name=named.run_name,
        roles=[
            specs.Role(
                name=get_role_name(script, m),
                image=image,
                min_replicas=min_nnodes,
                entrypoint="bash",
                args=["-c", " ".join(words)],
                env={
                    "LAUNCHER_TRACKING_EXPERIMENT_NAME": named.experiment_name,
                    "LAUNCHER_TRACKING_RUN_NAME": named.run_name,
                    **(_TORCH_DEBUG_FLAGS if debug else {}),
                    **(env or {}),
                },
                num_replicas=max_nnodes,
                max_retries=max_retries,
                resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
                port_map={"c10d": rdzv_port},
                mounts=specs.parse_mounts(mounts or [], expand_home=False),
            )
        ],
    )


def spmd(
    *args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = TORCH_IMAGE,
    name: str = "/",
    h: str = "gpu.small",
    j: str = "1x1",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    debug: bool = False,
) -> specs.AppDef:
    """One program on many processes: torchrun with a process for each GPU of a named resource.

    Args:
        args: arguments of the script or module
        script: script to run, within the image
        m: module to run, instead of a script
        image: image with torchrun
        name: name of the job as EXPERIMENT/RUN, each with a default
        h: a named resource
        j: nodes, with a process per GPU of `h`; or nodes x processes per node
        env: environment variables: ENV1=v1,ENV2=v2
        max_retries: how often to start again what failed
        mounts: mounts, such as type=bind,src=/host,dst=/job,readonly
        debug: whether to run with PyTorch's debug flags
    """
    return ddp(
        *args,
        script=script,
        m=m,
        image=image,
        name=name,
        h=h,
        j=str(StructuredJArgument.parse_from(h, j)),
        env=env,
        max_retries=max_retries,
        mounts=mounts,
        debug=debug,
    )
