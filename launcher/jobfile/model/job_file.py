"""The language of job files as pydantic models. The JSON Schema is generated from them.

Strict types, closed mappings; what fields must agree on is checked elsewhere (`build`, `specs.check`).
`null` never reaches these models, so `None` as a default means only "not given".
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.model.types import (
    ADDRESS_PATTERN,
    DURATION,
    MEMORY_PATTERN,
    SECRET_PATTERN,
    VAR_NAME,
    Attempts,
    Count,
    EnvName,
    Label,
    Model,
    NonEmpty,
    Traits,
    address_of,
    documented,
    form_tag,
    kind_tag,
    mapping_tag,
    memory_mib,
    model_classes,
    seconds,
    secret_of,
    switched,
    traits_of,
)
from launcher.specs.jobkey import DEFAULT_SCHEDULER

NEVER = Traits("never")


class _VarBase(Model):
    help: Annotated[str, Traits("never", after="choices")] = documented(
        "", "What the variable is for.", "passes over the data"
    )
    from_env: Annotated[EnvName | None, Traits("never", after="type")] = documented(
        None, "Environment variable that gives the value where --var does not.", "HF_HOME"
    )


_TYPE = "The type of the value."
_VALUE = "The value where none is given."
_LEAST = "The smallest value allowed."
_MOST = "The largest value allowed."
_ALLOWED = "The values allowed."


class IntVar(_VarBase):
    """A variable that is a whole number."""

    type: Annotated[Literal["int"], NEVER] = documented(..., _TYPE, "int")
    default: Annotated[int | None, NEVER] = documented(None, _VALUE, 3)
    min: Annotated[int | None, NEVER] = documented(None, _LEAST, 1)
    max: Annotated[int | None, NEVER] = documented(None, _MOST, 100)
    choices: Annotated[list[int] | None, NEVER] = documented(None, _ALLOWED, [1, 2, 4])


class FloatVar(_VarBase):
    """A variable that is a number."""

    type: Annotated[Literal["float"], NEVER] = documented(..., _TYPE, "float")
    default: Annotated[float | None, NEVER] = documented(None, _VALUE, 0.1)
    min: Annotated[float | None, NEVER] = documented(None, _LEAST, 0.0)
    max: Annotated[float | None, NEVER] = documented(None, _MOST, 1.0)
    choices: Annotated[list[float] | None, NEVER] = documented(None, _ALLOWED, [0.1, 0.01])


class StrVar(_VarBase):
    """A variable that is text."""

    type: Annotated[Literal["str"], NEVER] = documented(..., _TYPE, "str")
    default: Annotated[str | None, NEVER] = documented(None, _VALUE, "fp32")
    choices: Annotated[list[str] | None, NEVER] = documented(None, _ALLOWED, ["fp32", "bf16"])


class BoolVar(_VarBase):
    """A variable that is true or false."""

    type: Annotated[Literal["bool"], NEVER] = documented(..., _TYPE, "bool")
    default: Annotated[bool | None, NEVER] = documented(None, _VALUE, False)


Var = Annotated[
    Annotated[IntVar, Tag("<int>")]
    | Annotated[FloatVar, Tag("<float>")]
    | Annotated[StrVar, Tag("<str>")]
    | Annotated[BoolVar, Tag("<bool>")],
    Discriminator(kind_tag),
]
Vars = dict[Annotated[str, Field(pattern=VAR_NAME)], Var]


class Declarations(Model):
    """The variables of a file alone: their values are needed before the other fields can be validated."""

    vars: Vars


class FilesTrigger(Model):
    """Files whose contents run finished work again."""

    files: list[NonEmpty] = documented(
        ..., "Globs, relative to the job file; `**` is any number of folders.", ["data/*.csv"], min_length=1
    )


TriggerItem = Annotated[
    Annotated[FilesTrigger, Tag("<mapping>")] | Annotated[Literal["every_apply"], Tag("<text>")],
    Discriminator(mapping_tag),
]

WorkspaceSpec = Annotated[
    Annotated[dict[NonEmpty, str], Field(min_length=1), Tag("<mapping>")]
    | Annotated[NonEmpty, Tag("<text>")],
    Discriminator(form_tag),
]

ON_NEW_RUN = {"never": "Only the order counts: a new run of the other job does not run this one again."}


class NeedSpec(Model):
    """A need: another job must have succeeded before this one starts."""

    rerun: Annotated[Literal["never"] | None, Traits(choices=ON_NEW_RUN)] = documented(
        None,
        "Whether a new run of the other job runs this one again. It does, unless set to `never`.",
        "never",
    )


Needs = Annotated[
    Annotated[dict[str, NeedSpec | None], Tag("<mapping>")] | Annotated[list[str], Tag("<list>")],
    Discriminator(form_tag),
]

OnEnd = Literal["hold", "rerun"]
_HOLD = {"hold": "Do nothing until a user decides."}
QUEUE = {"on": "Wait in line for a share of the machine.", "off": "Take it at once."}
ON_CHANGE = {"replace": "Stop what runs, then start what the file now says.", **_HOLD}
ON_EDIT = {"note": "Keep it, and say which files differ.", "rerun": "Run it again."}
ON_END = {**_HOLD, "rerun": "Run it again, at most `max_attempts` times."}


class LifecycleSpec(Model):
    """The policies for attempts of this job: what stops, restarts and protects them."""

    on_change: Annotated[Literal["replace", "hold"] | None, Traits(choices=ON_CHANGE)] = documented(
        None, "After a change of the file: stop a running attempt and start anew, or hold.", "replace"
    )
    on_failed: Annotated[OnEnd, Traits(choices=ON_END)] = documented("hold", "After a failure.", "rerun")
    on_cancelled: Annotated[OnEnd, Traits(choices=ON_END)] = documented("hold", "After a cancel.", "hold")
    on_lost: Annotated[OnEnd, Traits(choices=ON_END)] = documented(
        "hold", "After its supervisor or containers are gone.", "rerun"
    )
    max_attempts: Attempts | None = documented(
        None, "Bounds automatic re-runs of one content of the file.", 3
    )
    protect: bool = documented(False, "A running attempt is never stopped by an apply.", True)
    rerun_on: list[TriggerItem] = documented(
        list, "What runs finished work again: `every_apply`, or changed files.", [{"files": ["data/*.csv"]}]
    )
    on_edit: Annotated[Literal["note", "rerun"], Traits(choices=ON_EDIT)] = documented(
        "note",
        "After an edit of files of the checkout that a local job names or imports: say so, or run finished"
        " work again.",
        "rerun",
    )
    queue: Annotated[Annotated[bool, BeforeValidator(switched)], Traits(choices=QUEUE)] = documented(
        True,
        "Whether it waits in line for the cores, memory and GPUs that its roles ask for; `off` takes them"
        " at once, also where others have them.",
        "off",
    )


class JobFile(Model):
    """One job."""

    version: Annotated[Literal[1], NEVER] = documented(..., "Version of the job file language.", 1)
    name: Annotated[Label, Traits("matrix", job_names=True)] = documented(
        ...,
        "The job's identity within its project. With a `matrix` it may hold its values,"
        " `train-$<matrix.lr>`, and `matrix.group` names all of the jobs.",
        "mnist",
    )
    description: str = documented("", "What the job does.", "Train MNIST on two replicas.")
    project: Label | None = documented(
        None, "The project; else from launcher.toml, else `default`.", "vision"
    )
    extends: Annotated[str | None, NEVER] = documented(
        None,
        "A job file whose fields this one has where it does not say otherwise; relative to this file, and"
        " below the repository.",
        "../base.launcher.yaml",
        min_length=1,
    )
    abstract: Annotated[bool, NEVER] = documented(
        False, "Where true, the file is no job, only a parent of others.", True
    )
    remove: Annotated[list[str], NEVER] = documented(
        list,
        "Fields of launcher.toml, of parents and of `defaults` that this one is without.",
        ["timeout", "roles.main.env.NAME"],
    )
    vars: Annotated[Vars, NEVER] = documented(
        dict, "Typed inputs, given with --var.", {"epochs": {"type": "int"}}
    )
    needs: Annotated[Needs, Traits(nulls=True, job_names=True)] = documented(
        dict,
        "Jobs of the same project and target that must have succeeded before this one starts: a list, or"
        " each with its options. The name of a matrix means all of its jobs.",
        ["prepare"],
    )
    scheduler: str = Field(
        DEFAULT_SCHEDULER, description="Where the job runs.", examples=["local_cwd"], min_length=1
    )
    workspace: Annotated[WorkspaceSpec | None, Traits(after="cfg")] = documented(
        None,
        "Files that travel with the job: a folder, relative to the job file; or several folders and files,"
        " each with the folder of the workspace that it goes into.",
        ".",
    )
    inputs: Annotated[list[NonEmpty], Traits(after="workspace")] = documented(
        list,
        "Files that its result depends on, below the repository: paths and globs, relative to the job"
        " file; `**` is any number of folders. A change of their content runs the job again.",
        ["train.py", "conf/**/*.yaml"],
    )
    cfg: Annotated[dict[str, Any], Traits("bound", nulls=True)] = documented(
        dict, "Options of the scheduler.", {"log_dir": "logs"}
    )
    component: str | None = documented(
        None,
        "Makes the roles, in place of `roles`: a name, or file.py:function beside the job file.",
        "dist.ddp",
        min_length=1,
    )
    args: Annotated[dict[str, Any], Traits("run", nulls=True)] = documented(
        dict, "Arguments of the component by name, each of its type.", {"script": "train.py", "j": "1x2"}
    )
    roles: dict[Label, RoleSpec] = documented(
        ..., "What runs, by name and in this order.", {"main": {"entrypoint": "env"}}, min_length=1
    )
    metadata: Annotated[dict[str, str], Traits("bound", as_written=True)] = documented(
        dict, "For people and tools.", {"team": "vision"}
    )
    output: bool = documented(
        False,
        "Where true, the job has an output folder, and the variable LAUNCHER_OUTPUT_DIR, on every engine."
        " Without it, one has it where its roles speak of one, and a local job always.",
        True,
    )
    timeout: Annotated[int, BeforeValidator(seconds)] | None = documented(
        None,
        "The whole app fails past it: 90s, 1h30m, 1.5h; a bare number is seconds.",
        "2h",
        schema={**DURATION, "minimum": 1},
    )
    lifecycle: LifecycleSpec = documented(
        LifecycleSpec, "What happens to attempts of this job.", {"on_failed": "rerun"}
    )
    enabled: bool = documented(True, "Where false, the job does not run, and stops if it does.", False)
    defaults: dict[str, Any] = documented(
        dict, "What every role has that does not say otherwise.", {"role": {"image": "python:3.12-slim"}}
    )
    matrix: dict[str, Any] = documented(
        dict,
        "One job for each combination of these axes, with `$<matrix.AXIS>` for its values. `exclude`"
        " leaves combinations out, `include` adds some, or further values.",
        {"lr": [0.1, 0.01], "seed": {"range": [0, 4]}},
    )
    max_parallel: Attempts | None = documented(None, "How many jobs of the matrix run at once, at most.", 4)
    targets: dict[str, Any] = Field(
        default_factory=dict,
        description="Overlays by name, chosen with --target: maps merge, all else replaces, null removes. A"
        " list names those of parents and of launcher.toml.",
        examples=[{"dev": {"scheduler": "local_cwd"}}],
    )
    jobs: dict[str, Any] = documented(
        dict,
        "Several jobs in one file, by name. `project`, `vars`, `defaults`, `targets`, `scheduler` and"
        " `timeout` beside it are for all of them.",
        {"train": {"roles": {"main": {"entrypoint": "env"}}}},
    )


_SHARED = ("project", "vars", "defaults", "targets", "scheduler", "timeout")
BESIDE_JOBS = ("version", "extends", "remove", *_SHARED)
"""Fields that a file with `jobs` may have at its top: they lie under each job."""


class ComponentJob(JobFile):
    """One job whose roles a component makes."""

    roles: dict[Label, RoleSpec] = Field(default_factory=dict, description="Made by the component.")


class QueueSpec(Model):
    """`[queue]` of launcher.toml: the share of a machine that the jobs of a project take together."""

    cpu: Annotated[float, Field(gt=0, le=100_000)] | None = documented(None, "Cores.", 8)
    memory: Annotated[int, BeforeValidator(lambda text: memory_mib(text, other=""))] | None = documented(
        None, "Memory with its unit.", "32GiB", schema={"type": "string", "pattern": MEMORY_PATTERN}
    )
    gpus: Count | None = documented(None, "GPUs.", 2)
    max_parallel: Attempts | None = documented(None, "A number of jobs.", 4)


Hours = Annotated[float, Field(ge=0, le=1_000_000_000)]


class BudgetSpec(Model):
    """`[budget]` of launcher.toml, and its tables of targets: the most that the jobs of one plan may take."""

    gpu_hours: Hours | None = documented(None, "GPUs times hours.", 100)
    core_hours: Hours | None = documented(None, "Cores times hours.", 2000)


Outcome = Literal["succeeded", "failed", "cancelled", "skipped", "lost"]
OUTCOMES = {
    "succeeded": "All of its replicas have ended with 0.",
    "failed": "A replica has failed, after its restarts.",
    "cancelled": "A user stopped it.",
    "skipped": "It never started, since a job that it needs did not succeed, or a plan withdrew it.",
    "lost": "The process that held it died, and left no outcome.",
}


class NotifySpec(Model):
    """`[notify]` of launcher.toml: the receivers of the outcomes of attempts."""

    url: Annotated[str, AfterValidator(address_of)] | None = documented(
        None,
        "An http or https URL that gets them, or the reference `env:NAME` or `file:PATH` of one.",
        "https://example.com/hook",
        schema={"pattern": ADDRESS_PATTERN},
    )
    secret: Annotated[str, AfterValidator(secret_of)] | None = documented(
        None,
        "The reference of the key that signs them, which begins with `whsec_`.",
        "env:HOOK_KEY",
        schema={"pattern": SECRET_PATTERN},
    )
    command: Annotated[list[NonEmpty], Field(min_length=1)] | None = documented(
        None, "A program and its arguments, which gets them on its standard input.", ["page", "--urgent"]
    )
    on: Annotated[list[Outcome] | None, Field(min_length=1), Traits(choices=OUTCOMES)] = documented(
        None, "The outcomes that are sent; all where it is absent.", ["failed", "lost"]
    )


def choices() -> dict[str, str]:
    """Return the meaning of each value of the fields that take one of a few."""
    fields = (info for model in model_classes() for info in model.model_fields.values())
    return {value: text for info in fields for value, text in traits_of(info).choices.items()}
