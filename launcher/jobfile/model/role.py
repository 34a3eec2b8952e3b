"""Roles of a job file: what a replica runs, needs and mounts, and how it is seen to be ready."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from launcher.jobfile.model.types import (
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
from launcher.text import DURATION_PATTERN


class Resources(Model):
    """The resources of one replica; an amount that is left out is left to the scheduler."""

    cpu: Annotated[float, Field(gt=0, le=100_000)] | None = Field(
        None, description="Cores; may be a fraction.", examples=[2]
    )
    gpu: Count | None = Field(None, description="GPUs.", examples=[1])
    gpu_type: Annotated[str | None, Traits(as_written=True)] = Field(
        None,
        description="Their kind, as the cluster names it.",
        examples=["a100"],
        json_schema_extra={"pattern": GPU_TYPE_FORM},
    )
    memory: Annotated[int, BeforeValidator(memory_mib)] | None = Field(
        None,
        description="Memory with its unit: 512MiB, 4GiB, 4Gi, 4g; GB counts in thousands.",
        examples=["4GiB"],
        json_schema_extra={"type": "string", "pattern": MEMORY_PATTERN},
    )
    memMB: MiB | None = Field(None, description="Memory in MiB; instead of `memory`.", examples=[4096])
    devices: dict[str, Count] = Field(
        default_factory=dict, description="Special devices by name.", examples=[{"vpc/efa": 4}]
    )
    capabilities: dict[str, Any] = Field(
        default_factory=dict, description="What the machine must be.", examples=[{"zone": "a"}]
    )
    tags: dict[str, Any] = Field(
        default_factory=dict, description="For other tools.", examples=[{"team": "vision"}]
    )


MOUNT_SOURCE = Traits("run")
MOUNT_DESTINATION = Traits("bound")


class BindMount(Model):
    """A file or folder of the host."""

    type: Literal["bind"] = Field(description="A file or folder of the host.", examples=["bind"])
    src: Annotated[str, MOUNT_SOURCE] = Field(
        min_length=1,
        description="Path, relative to the job file; `~` is the home folder.",
        examples=["./data"],
    )
    dst: Annotated[str, MOUNT_DESTINATION] = Field(
        min_length=1, description="Path in the container.", examples=["/data"]
    )
    read_only: bool = Field(False, description="Replicas cannot write to it.", examples=[True])


class VolumeMount(Model):
    """A named volume of the engine."""

    type: Literal["volume"] = Field(description="A named volume of the engine.", examples=["volume"])
    src: Annotated[str, MOUNT_SOURCE] = Field(
        min_length=1, description="Name of the volume.", examples=["cache"]
    )
    dst: Annotated[str, MOUNT_DESTINATION] = Field(
        min_length=1, description="Path in the container.", examples=["/cache"]
    )
    read_only: bool = Field(False, description="Replicas cannot write to it.", examples=[True])


class DeviceMount(Model):
    """A device of the host."""

    type: Literal["device"] = Field(description="A device of the host.", examples=["device"])
    src: Annotated[str, MOUNT_SOURCE] = Field(
        min_length=1, description="Path of the device.", examples=["/dev/fuse"]
    )
    dst: Annotated[str | None, MOUNT_DESTINATION] = Field(
        None, min_length=1, description="Path in the container; `src` if left out.", examples=["/dev/fuse"]
    )
    permissions: str = Field(
        "rwm", pattern=r"^[rwm]+$", description="Of r(ead), w(rite), m(knod).", examples=["rwm"]
    )


MountItem = Annotated[
    Annotated[BindMount, Tag("<bind>")]
    | Annotated[VolumeMount, Tag("<volume>")]
    | Annotated[DeviceMount, Tag("<device>")]
    | Annotated[str, AfterValidator(mount_of), Tag("<text>")],
    Discriminator(kind_tag),
]


class SecretRef(Model):
    """A reference to the value of a secret variable."""

    secret: Annotated[Annotated[str, AfterValidator(secret_of)], Traits("bound")] = Field(
        description="Where it is, `env:NAME` or `file:PATH`; read while submitting, written nowhere.",
        examples=["env:WANDB_API_KEY"],
        json_schema_extra={"pattern": SECRET_PATTERN},
    )


EnvValue = Annotated[
    Annotated[SecretRef, Tag("<mapping>")] | Annotated[str, Tag("<text>")], Discriminator(mapping_tag)
]
ResourceSpec = Annotated[
    Annotated[Resources, Tag("<mapping>")] | Annotated[str, Tag("<text>")], Discriminator(form_tag)
]


class ProbeSpec(Model):
    """A probe, which sees whether a replica is ready: `port`, `http` with `port`, `file` or `command`."""

    port: Port | None = Field(None, description="Something listens on this port.", examples=[6379])
    http: Annotated[str, Field(pattern=r"^/")] | None = Field(
        None, description="Path that answers a plain GET on `port` with 2xx or 3xx.", examples=["/health"]
    )
    file: str | None = Field(
        None,
        min_length=1,
        description="File in the working directory, made or written since the replica was started.",
        examples=["ready.txt"],
    )
    command: Annotated[list[str], Traits(as_written=True)] = Field(
        default_factory=list,
        description="Command that ends with 0; runs where the replica runs.",
        examples=[["pg_isready"]],
    )
    every: Annotated[float, BeforeValidator(interval)] = Field(
        PROBE_EVERY_S,
        description="Time between two probes; the first ones follow faster.",
        examples=["2s"],
        json_schema_extra=PROBE_TIME,
    )
    timeout: Annotated[float, BeforeValidator(interval)] = Field(
        PROBE_TIMEOUT_S,
        description="Time from the start of the replica; then it has failed.",
        examples=["5m"],
        json_schema_extra=PROBE_TIME,
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

    image: Annotated[str, Traits("bound")] = Field(
        "", description="Container image, or the folder for `local_dir`.", examples=["python:3.12-slim"]
    )
    entrypoint: Annotated[str | None, Traits("run", as_written=True)] = Field(
        None, min_length=1, description="The program to run.", examples=["python"]
    )
    args: Annotated[list[str], Traits("run", as_written=True)] = Field(
        default_factory=list,
        description="Its arguments; numbers are taken as written.",
        examples=[["-m", "train"]],
    )
    run: Annotated[str | None, Traits("run", as_written=True)] = Field(
        None,
        min_length=1,
        description="A script for a shell, in place of `entrypoint` and `args`.",
        examples=["./prepare.sh && ./train.sh --lr 0.1"],
    )
    shell: Annotated[Literal["sh", "bash"], Traits(choices=SHELLS)] = Field(
        "sh", description="The shell of `run`.", examples=["bash"]
    )
    env: Annotated[dict[EnvName, EnvValue], Traits("run", as_written=True)] = Field(
        default_factory=dict,
        description="Environment variables; numbers are taken as written, `{secret: …}` is read elsewhere.",
        examples=[{"OMP_NUM_THREADS": "4"}],
    )
    num_replicas: Replicas = Field(1, description="How many replicas run.", examples=[2])
    min_replicas: Count | None = Field(None, description="Minimum number of replicas to start.", examples=[1])
    max_retries: Count = Field(0, description="How often a failure is followed by a restart.", examples=[2])
    retry_policy: Annotated[Literal["application", "replica", "role"], Traits(choices=RETRY)] = Field(
        "application", description="What restarts when a replica fails.", examples=["replica"]
    )
    retry_delay: Annotated[int, BeforeValidator(pause)] = Field(
        0,
        description="Pause before the first restart; doubled before each further one, up to 5 minutes.",
        examples=["2s"],
        json_schema_extra={
            "type": ["string", "integer"],
            "minimum": 0,
            "maximum": LONGEST_DELAY_S,
            "pattern": DURATION_PATTERN,
        },
    )
    service: bool = Field(
        False,
        description="It serves the other roles, and is stopped when all of these have ended with 0.",
        examples=[True],
    )
    ready: ProbeSpec | None = Field(
        None, description="When a replica is ready for the roles that wait for it.", examples=[{"port": 6379}]
    )
    depends_on: Annotated[DependsOn, Traits(choices=WAITS_FOR)] = Field(
        default_factory=dict,
        description="Roles that it waits for, until they are `ready` where they have a probe, else `started`;"
        " or each with its condition.",
        examples=[["server"]],
    )
    resource: ResourceSpec | None = Field(
        None, description="What one replica needs: its parts, or a named resource.", examples=["gpu.small"]
    )
    port_map: dict[str, Port] = Field(
        default_factory=dict, description="Ports by name.", examples=[{"tcp_store": 29500}]
    )
    mounts: Annotated[list[MountItem], Traits("run")] = Field(
        default_factory=list,
        description="Folders, volumes and devices.",
        examples=[["type=bind,src=./data,dst=/data"]],
    )
    metadata: Annotated[dict[str, Any], Traits("run")] = Field(
        default_factory=dict, description="For schedulers and people.", examples=[{"tier": "gold"}]
    )
    cfg: Annotated[dict[str, Any], Traits("bound")] = Field(
        default_factory=dict,
        description="Options of the scheduler for this role, over those in `cfg` of the job.",
        examples=[{"shm_size": "8g"}],
    )
