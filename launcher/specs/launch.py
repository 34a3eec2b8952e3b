"""A launch: one job of a job file, compiled. The unit of plan and apply."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from launcher.dataclass import dataclass, field
from launcher.specs.app import AppDef
from launcher.specs.jobkey import JobKey as JobKey, attempt_id as attempt_id
from launcher.specs.notify import Destination

OnChange = Literal["replace", "hold"]
OnEnd = Literal["hold", "rerun"]
OnEdit = Literal["note", "rerun"]
TriggerKind = Literal["every_apply", "files"]


class Need(NamedTuple):
    """A job that must have succeeded before another one of the same project and target starts (`needs:`).

    `rerun` is False for `{rerun: never}`: the need still runs first, but its new editions re-run nothing.
    """

    job: str
    rerun: bool = True


class Trigger(NamedTuple):
    """A cause to run a finished job again (`rerun_on:`): every apply, or changed contents of files.

    `globs` are as written, relative to the job file's folder; empty for `every_apply`.
    """

    kind: TriggerKind
    globs: tuple[str, ...] = ()


class ProjectRef(NamedTuple):
    """One of several projects of a workspace: a folder or a file, and its target.

    `path` and `digest` as in WorkspaceRef; `target` is the folder in the workspace for the file, or for the
    contents of the folder: relative, with forward slashes, "." for the root.
    """

    path: str
    target: str
    digest: str


class WorkspaceRef(NamedTuple):
    """The files that travel with a job: one folder, or several `projects`.

    `path` is as written, relative to the job file's folder; `digest` is the hash of its contents
    (`launcher.workspace.context`), which the job's digest covers. Both are "" for several.
    """

    path: str
    digest: str
    projects: tuple[ProjectRef, ...] = ()

    @property
    def name(self) -> str:
        """The workspace as the job file names it, for messages."""
        if not self.projects:
            return self.path
        return f"{{{', '.join(f'{each.path}: {each.target}' for each in self.projects)}}}"

    @property
    def parts(self) -> Sequence[WorkspaceRef | ProjectRef]:
        """The folders and files, each with its own digest."""
        return self.projects or (self,)


class InputRef(NamedTuple):
    """The input files of an attempt: where they are, and their planned digest, to compare them later.

    `digest` is of the files as the plan saw them; `directory` is the absolute folder of the job file, `root`
    the folder that the globs may not leave.
    """

    digest: str
    directory: str
    root: str
    globs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """Policies of a job (`lifecycle:`). The digest leaves them out: editing a policy alone re-runs nothing.

    `on_change` is None when the file has none: a live attempt is then replaced only with approval.
    `max_attempts` bounds automatic re-runs per digest, except for those that `rerun_on` causes. With
    `on_edit: rerun` a job that has ended runs again when a file of the checkout that it runs has changed
    (`launcher.specs.inputs`); else plans say so. Without `queue` the job takes its share of the machine at
    once, instead of in its turn.
    """

    on_change: OnChange | None = None
    on_failed: OnEnd = "hold"
    on_cancelled: OnEnd = "hold"
    on_lost: OnEnd = "hold"
    max_attempts: int | None = None
    protect: bool = False
    rerun_on: tuple[Trigger, ...] = ()
    on_edit: OnEdit = "note"
    queue: bool = True


class Caps(NamedTuple):
    """Limits of the jobs of one project on a machine (`[queue]` of launcher.toml); None for no limit.

    `cpu` in cores, `memory_mb` in MiB, `max_parallel` a number of apps.
    """

    cpu: float | None = None
    memory_mb: int | None = None
    gpus: int | None = None
    max_parallel: int | None = None


NO_CAPS = Caps()


class Budget(NamedTuple):
    """The limits of the hours that one plan's jobs of a project and target may take together
    (`[budget]` of launcher.toml); None for no limit.
    """

    gpu_hours: float | None = None
    core_hours: float | None = None


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One job, compiled: an AppDef with everything that is needed to run it.

    `app` keeps as text what only `launcher.specs.binding` can resolve: `$<app_id>` and the other run macros,
    `$<job.dir>`, `~`, relative mount sources. `cfg` holds the scheduler options that differ from their
    defaults. `root` is the absolute folder that `file` (the job file, with forward slashes) is relative to:
    the git work tree that holds it, else the folder of its launcher.toml, else its own folder.
    """

    key: JobKey
    app: AppDef
    scheduler: str
    cfg: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: int | None = None
    workspace: WorkspaceRef | None = None
    lifecycle: Lifecycle = Lifecycle()
    needs: tuple[Need, ...] = ()
    """Jobs of the same project and target that must have succeeded first, sorted; all jobs of a matrix."""
    unresolved: Mapping[str, str] = field(default_factory=dict)
    """Names among `needs` that may mean jobs not known here, each with the reason."""
    matrix: str = ""
    """The name of the matrix that the job belongs to; "" for a job outside of matrices."""
    max_parallel: int | None = None
    """The most jobs of its matrix that run at once; None for any number."""
    caps: Caps = NO_CAPS
    """The caps of its project."""
    budget: Budget = NO_BUDGET
    """The budget of its project and target."""
    notify: tuple[Destination, ...] = ()
    """The receivers of the outcomes of its attempts. Outside the document; approvals hold them."""
    trigger_digest: str = ""
    """Hash of all files that the globs of `lifecycle.rerun_on` match; "" where there are none."""
    inputs: tuple[str, ...] = ()
    """Globs, relative to the job file's folder; a change of matching files makes a new edition."""
    inputs_digest: str = ""
    """Hash of `inputs` and of all matching files; "" without inputs, or when the files were not read."""
    review_digest: str = ""
    """Digest of the document with `$<git.…>` left symbolic, for approvals; "" if it equals the document's."""
    enabled: bool = True
    description: str = ""
    notes: tuple[str, ...] = ()
    """Remarks of the compiler that a plan shows when it starts the job. Not in the document."""
    shared_line: Callable[[str], str] = field(default=lambda path: "", compare=False, repr=False)
    """`roles.main.env.LR` → `launcher.toml:12` if other jobs use that file too; else "". Not saved."""
    digest: str = field(default="", init=False, compare=False, repr=False)
    """Digest of its document, if the cache of compiles has it; a copy made by `replace` has none."""
    root: str
    file: str
    origin: str
    """Normalised git remote (`host/path`), else the absolute root: the owner of the job."""

    @property
    def directory(self) -> str:
        """The absolute folder of the job file."""
        return os.path.normpath(os.path.join(self.root, os.path.dirname(self.file)))

    @property
    def needed(self) -> list[JobKey]:
        """The keys of the jobs that it needs."""
        return [self.key._replace(job=need.job) for need in self.needs]

    @property
    def input_ref(self) -> InputRef | None:
        """The place and digest of its input files; None without inputs."""
        if not self.inputs_digest:
            return None
        return InputRef(self.inputs_digest, self.directory, self.root, self.inputs)

    @property
    def asks(self) -> bool:
        """Whether the job asks for a share of a machine, or is in a group that limits parallel runs."""
        declared = (
            value > 0
            for role in self.app.roles
            for value in (role.resource.cpu, role.resource.memMB, role.resource.gpu)
        )
        return any(declared) or self.max_parallel is not None or self.caps.max_parallel is not None
