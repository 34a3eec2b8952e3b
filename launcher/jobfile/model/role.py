"""Roles of a job file: what a replica runs, needs and mounts, and how it is seen to be ready."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from launcher.jobfile.model.types import (
    DURATION,
    MEMORY_PATTERN,
    PROBE_TIME,
    SECRET_PATTERN,
    Count,
    EnvName,
    Label,
    MiB,
    Model,
    Port,
    Replicas,
    Traits,
    documented,
    form_tag,
    interval,
    kind_tag,
    mapping_tag,
    memory_mib,
    mount_of,
    pause,
    secret_of,
)
from launcher.specs.app import LONGEST_DELAY_S, PROBE_EVERY_S, PROBE_TIMEOUT_S
from launcher.specs.resources import GPU_TYPE_FORM


class Resources(Model):
    """The resources of one replica; an amount that is left out is left to the scheduler."""

    cpu: Annotated[float, Field(gt=0, le=100_000)] | None = documented(None, "Cores; may be a fraction.", 2)
    gpu: Count | None = documented(None, "GPUs.", 1)
    gpu_type: Annotated[str | None, Traits(as_written=True)] = documented(
        None, "Their kind, as the cluster names it.", "a100", schema={"pattern": GPU_TYPE_FORM}
    )
    memory: Annotated[int, BeforeValidator(memory_mib)] | None = documented(
        None,
        "Memory with its unit: 512MiB, 4GiB, 4Gi, 4g; GB counts in thousands.",
        "4GiB",
        schema={"type": "string", "pattern": MEMORY_PATTERN},
    )
    memMB: MiB | None = documented(None, "Memory in MiB; instead of `memory`.", 4096)
    devices: dict[str, Count] = documented(dict, "Special devices by name.", {"vpc/efa": 4})
    capabilities: dict[str, Any] = documented(dict, "What the machine must be.", {"zone": "a"})
    tags: dict[str, Any] = documented(dict, "For other tools.", {"team": "vision"})


MOUNT_SOURCE = Traits("run")
MOUNT_DESTINATION = Traits("bound")


class BindMount(Model):
    """A file or folder of the host."""

    type: Literal["bind"] = documented(..., "A file or folder of the host.", "bind")
    src: Annotated[str, MOUNT_SOURCE] = documented(
        ..., "Path, relative to the job file; `~` is the home folder.", "./data", min_length=1
    )
    dst: Annotated[str, MOUNT_DESTINATION] = documented(..., "Path in the container.", "/data", min_length=1)
    read_only: bool = documented(False, "Replicas cannot write to it.", True)


class VolumeMount(Model):
    """A named volume of the engine."""

    type: Literal["volume"] = documented(..., "A named volume of the engine.", "volume")
    src: Annotated[str, MOUNT_SOURCE] = documented(..., "Name of the volume.", "cache", min_length=1)
    dst: Annotated[str, MOUNT_DESTINATION] = documented(..., "Path in the container.", "/cache", min_length=1)
    read_only: bool = documented(False, "Replicas cannot write to it.", True)


class DeviceMount(Model):
    """A device of the host."""

    type: Literal["device"] = documented(..., "A device of the host.", "device")
    src: Annotated[str, MOUNT_SOURCE] = documented(..., "Path of the device.", "/dev/fuse", min_length=1)
    dst: Annotated[str | None, MOUNT_DESTINATION] = documented(
        None, "Path in the container; `src` if left out.", "/dev/fuse", min_length=1
    )
    permissions: str = documented("rwm", "Of r(ead), w(rite), m(knod).", "rwm", pattern=r"^[rwm]+$")


MountItem = Annotated[
    Annotated[BindMount, Tag("<bind>")]
    | Annotated[VolumeMount, Tag("<volume>")]
    | Annotated[DeviceMount, Tag("<device>")]
    | Annotated[str, AfterValidator(mount_of), Tag("<text>")],
    Discriminator(kind_tag),
]


class SecretRef(Model):
    """A reference to the value of a secret variable."""

    secret: Annotated[Annotated[str, AfterValidator(secret_of)], Traits("bound")] = documented(
        ...,
        "Where it is, `env:NAME` or `file:PATH`; read while submitting, written nowhere.",
        "env:WANDB_API_KEY",
        schema={"pattern": SECRET_PATTERN},
    )


EnvValue = Annotated[
    Annotated[SecretRef, Tag("<mapping>")] | Annotated[str, Tag("<text>")], Discriminator(mapping_tag)
]
ResourceSpec = Annotated[
    Annotated[Resources, Tag("<mapping>")] | Annotated[str, Tag("<text>")], Discriminator(form_tag)
]


class ProbeSpec(Model):
    """A probe, which sees whether a replica is ready: `port`, `http` with `port`, `file` or `command`."""

    port: Port | None = documented(None, "Something listens on this port.", 6379)
    http: Annotated[str, Field(pattern=r"^/")] | None = documented(
        None, "Path that answers a plain GET on `port` with 2xx or 3xx.", "/health"
    )
    file: str | None = documented(
        None,
        "File in the working directory, made or written since the replica was started.",
        "ready.txt",
        min_length=1,
    )
    command: Annotated[list[str], Traits(as_written=True)] = documented(
        list, "Command that ends with 0; runs where the replica runs.", ["pg_isready"]
    )
    every: Annotated[float, BeforeValidator(interval)] = documented(
        PROBE_EVERY_S, "Time between two probes; the first ones follow faster.", "2s", schema=PROBE_TIME
    )
    timeout: Annotated[float, BeforeValidator(interval)] = documented(
        PROBE_TIMEOUT_S, "Time from the start of the replica; then it has failed.", "5m", schema=PROBE_TIME
    )


WAITS_FOR = {
    "started": "All of its replicas were started.",
    "ready": "All of its replicas are ready, by its probe.",
    "succeeded": "All of its replicas have ended with 0.",
}

DependsOn = Annotated[
    Annotated[dict[Label, Literal["started", "ready", "succeeded"]], Tag("<mapping>")]
    | Annotated[list[str], Tag("<list>")],
    Discriminator(form_tag),
]

RETRY = {
    "application": "Every replica of the job is stopped and started again.",
    "replica": "Only the replica that failed is started again.",
    "role": "The replicas of its role are stopped and started again.",
}
SHELLS = {
    "sh": "Runs `sh -euc`: ends at the first command that fails, and at an unset variable.",
    "bash": "Runs `bash -euo pipefail -c`: as `sh`, and a pipeline fails with any of its commands.",
}


class RoleSpec(Model):
    """One kind of replica: processes or containers with one command line."""

    image: Annotated[str, Traits("bound")] = documented(
        "", "Container image, or the folder for `local_dir`.", "python:3.12-slim"
    )
    entrypoint: Annotated[str | None, Traits("run", as_written=True)] = documented(
        None, "The program to run.", "python", min_length=1
    )
    args: Annotated[list[str], Traits("run", as_written=True)] = documented(
        list, "Its arguments; numbers are taken as written.", ["-m", "train"]
    )
    run: Annotated[str | None, Traits("run", as_written=True)] = documented(
        None,
        "A script for a shell, in place of `entrypoint` and `args`.",
        "./prepare.sh && ./train.sh --lr 0.1",
        min_length=1,
    )
    shell: Annotated[Literal["sh", "bash"], Traits(choices=SHELLS)] = documented(
        "sh", "The shell of `run`.", "bash"
    )
    env: Annotated[dict[EnvName, EnvValue], Traits("run", as_written=True)] = documented(
        dict,
        "Environment variables; numbers are taken as written, `{secret: …}` is read elsewhere.",
        {"OMP_NUM_THREADS": "4"},
    )
    num_replicas: Replicas = documented(1, "How many replicas run.", 2)
    min_replicas: Count | None = documented(None, "Minimum number of replicas to start.", 1)
    max_retries: Count = documented(0, "How often a failure is followed by a restart.", 2)
    retry_policy: Annotated[Literal["application", "replica", "role"], Traits(choices=RETRY)] = documented(
        "application", "What restarts when a replica fails.", "replica"
    )
    retry_delay: Annotated[int, BeforeValidator(pause)] = documented(
        0,
        "Pause before the first restart; doubled before each further one, up to 5 minutes.",
        "2s",
        schema={**DURATION, "minimum": 0, "maximum": LONGEST_DELAY_S},
    )
    service: bool = documented(
        False, "It serves the other roles, and is stopped when all of these have ended with 0.", True
    )
    ready: ProbeSpec | None = documented(
        None, "When a replica is ready for the roles that wait for it.", {"port": 6379}
    )
    depends_on: Annotated[DependsOn, Traits(choices=WAITS_FOR)] = documented(
        dict,
        "Roles that it waits for, until they are `ready` where they have a probe, else `started`; or each"
        " with its condition.",
        ["server"],
    )
    resource: ResourceSpec | None = documented(
        None, "What one replica needs: its parts, or a named resource.", "gpu.small"
    )
    port_map: dict[str, Port] = documented(dict, "Ports by name.", {"tcp_store": 29500})
    mounts: Annotated[list[MountItem], Traits("run")] = documented(
        list, "Folders, volumes and devices.", ["type=bind,src=./data,dst=/data"]
    )
    metadata: Annotated[dict[str, Any], Traits("run")] = documented(
        dict, "For schedulers and people.", {"tier": "gold"}
    )
    cfg: Annotated[dict[str, Any], Traits("bound")] = documented(
        dict, "Options of the scheduler for this role, over those in `cfg` of the job.", {"shm_size": "8g"}
    )
