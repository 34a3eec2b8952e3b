"""Look up what the job files of a folder share: project, root, origin, launcher.toml, commit and branch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any, NamedTuple

from launcher import ci_environment, looks
from launcher.dataclass import dataclass, field, replace
from launcher.errors import CommandError
from launcher.git import Head
from launcher.jobfile.compile.build import validated
from launcher.jobfile.compile.discover import wrong_pattern
from launcher.jobfile.compile.options import Schedulers, check_option
from launcher.jobfile.compile.variables import ENVIRON, Value
from launcher.jobfile.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector, got
from launcher.jobfile.messages.wording_fields import bad_label
from launcher.jobfile.model.job_file import BudgetSpec, LifecycleSpec, NotifySpec, QueueSpec
from launcher.jobfile.model.types import LABEL
from launcher.jobfile.text.document import Document, Spot, read_source
from launcher.jobfile.text.parse import parse_values
from launcher.specs.jobkey import DEFAULT_PROJECT
from launcher.specs.launch import NO_BUDGET, NO_CAPS, Budget, Caps
from launcher.specs.notify import Destination
from launcher.specs.projectfile import BUDGET, DEFAULTS, NOTIFY, QUEUE, faults

GIT_NAMES = ("git.sha", "git.short_sha", "git.branch")
_SHORT = 7  # fixed, because git's short ids grow with the repository: a commit has one digest
_DIRTY = "-dirty"


class Trouble(NamedTuple):
    """The reason why a git reference has no value."""

    code: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class GitFacts:
    """The commit and branch of a work tree, looked up at the first reference to them, once.

    Attributes:
        tree: the root of the work tree; None without a repository.
        allow_dirty: changed files mark the commit with `-dirty` instead of being an error.
        is_assumed: git is not asked; placeholders of the right form stand in.
    """

    tree: str | None
    allow_dirty: bool = False
    is_assumed: bool = False
    _head: Head | Trouble | None = field(default=None)

    def look_up(self, name: str) -> Value | Trouble:
        """Return the value of one of GIT_NAMES."""
        if self._head is None:
            self._head = self._ask()
        head = self._head
        if isinstance(head, Trouble):
            return head
        if name == "git.branch":
            branch = head.branch or ci_environment.branch(ENVIRON)
            if not branch:
                return Trouble("no-commit", "no branch is checked out", "check one out, or use `$<git.sha>`")
            return Value(branch, branch, self.is_assumed, "git")
        commit = head.oid[:_SHORT] if name == "git.short_sha" else head.oid
        commit += _DIRTY if head.is_dirty else ""
        return Value(commit, commit, self.is_assumed, "git")

    def _ask(self) -> Head | Trouble:
        if self.tree is None:
            return Trouble(
                "no-commit", "the file is in no git repository", "`git init` and commit, or use a variable"
            )
        if self.is_assumed:
            return Head("0" * 40, "main", False)
        try:
            head = looks.head(self.tree)
        except CommandError as error:
            return Trouble("no-commit", f"git does not say which commit this is: {error}".splitlines()[0])
        if not head.oid:
            return Trouble("no-commit", "the repository has no commit yet", "commit, or use a variable")
        if head.is_dirty and not self.allow_dirty:
            message = "files differ from the commit that this reference names"
            return Trouble("dirty-tree", message, "commit them, or pass --allow-dirty for `…-dirty`")
        return head


STAND_INS = GitFacts(None, _head=Head("0" * 40, "branch", False))
"""The commit and branch in a document that is compared between commits."""


@dataclass(frozen=True, slots=True)
class Config:
    """The valid parts of a launcher.toml.

    Attributes:
        project: the project of job files that name none.
        target: the target that is compiled without `--target`.
        options: scheduler → run options, which `cfg` of a job file overrides.
        lifecycle: policies, which those of a job file override.
        caps: the limits of what its jobs take of a machine together.
        budgets: target → the limits of what the jobs of one plan may take together; "" → for other targets.
        notify: the receivers of the outcomes of its attempts.
        prunes: `launcher ci apply` stops the apps of jobs that no file declares any more.
        shared: the variables, fields and targets of all job files, as a layer below them.
        document: the parsed file, which has the places of these values; None without a file.
    """

    project: str = DEFAULT_PROJECT
    target: str | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lifecycle: LifecycleSpec = field(default_factory=LifecycleSpec.model_construct)
    caps: Caps = NO_CAPS
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    notify: tuple[Destination, ...] = ()
    prunes: bool = False
    shared: Document | None = None
    document: Document | None = None
    problems: tuple[Diagnostic, ...] = ()


def read_config(
    file: str, path: str, schedulers: Schedulers | None, *, root: str = "", components: bool = True
) -> Config:
    """Read the configuration at `path`, shown to the user as `file`. No link may lead out of the real path
    `root`. With `components` the defaults of components are checked, which imports their packages.
    """
    source = read_source(file, path, root)
    if isinstance(source, Diagnostic):
        return Config(problems=(source,))
    if not re.sub(r"(?m)^\s*#.*$", "", source.text).strip():
        return Config()
    document = parse_values(source)
    problems = Collector(document, document.problems)
    value = document.value or {}
    _check_fields(value, schedulers, problems, components)
    _check_exclude(value.get("exclude", []), problems)
    queue = validated(QueueSpec, _known(value.get("queue"), QUEUE), problems, ("queue",))
    return Config(
        project=_label("project", value, problems) or DEFAULT_PROJECT,
        target=_label("target", value, problems),
        options=dict(_options(value.get("schedulers", {}), schedulers, problems)),
        lifecycle=validated(LifecycleSpec, value.get("lifecycle", {}), problems, ("lifecycle",)),
        caps=Caps(queue.cpu, queue.memory, queue.gpus, queue.max_parallel),
        budgets=dict(_budgets(value.get("budget"), problems)),
        notify=tuple(_destinations(value.get("notify"), problems)),
        prunes=isinstance(ci := value.get("ci"), dict) and ci.get("prune") is True,
        shared=_shared(document),
        document=document,
        problems=tuple(problems.found),
    )


def _known(table: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the known keys of a table; `_check_fields` notes the other ones."""
    return {key: table[key] for key in keys if key in table} if isinstance(table, dict) else {}


def _budgets(table: Any, problems: Collector) -> Iterator[tuple[str, Budget]]:
    """Yield the common budget, under "", and those of targets, which take missing amounts from it."""
    parts = {"": table, **table} if isinstance(table, dict) else {}
    common = NO_BUDGET
    for target, part in parts.items():
        if not isinstance(part, dict) or target in BUDGET or target.startswith("x-"):
            continue
        if target and not re.fullmatch(LABEL[1:-1], target):
            bad_label(("budget", target), target, "target", problems, at_key=True)
        else:
            path = ("budget", target) if target else ("budget",)
            found = validated(BudgetSpec, _known(part, BUDGET), problems, path)
            own = Budget(found.gpu_hours, found.core_hours)
            own = Budget(*(all_ if one is None else one for one, all_ in zip(own, common, strict=True)))
            common = common if target else own
            yield target, own


def _destinations(table: Any, problems: Collector) -> Iterator[Destination]:
    found = validated(NotifySpec, _known(table, NOTIFY), problems, ("notify",))
    on = tuple(found.on or ())
    if found.url:
        yield Destination(url=found.url, secret=str(found.secret or ""), on=on)
    if found.command:
        yield Destination(command=tuple(found.command), on=on)


def _shared(document: Document) -> Document | None:
    """Return the layer below job files: `[vars]`, `[targets]` and `[defaults]` of launcher.toml."""
    value = document.value or {}
    tables = {key: value[key] for key in ("vars", "targets") if isinstance(value.get(key), dict)}
    fields = value.get("defaults")
    fields = {key: fields[key] for key in DEFAULTS if key in fields} if isinstance(fields, dict) else {}
    if not tables and not fields:
        return None
    root = document.root()
    root.stamp(document.source)
    spot = Spot(root.start, root.start, document.source)
    entries = root.entries or {}
    spot.entries = {key: entries[key] for key in tables}
    own = entries["defaults"][2].entries or {} if fields else {}
    spot.entries |= {key: own[key] for key in fields}
    if "role" in fields:
        fields["defaults"] = {"role": fields.pop("role")}
        common = Spot(root.start, root.start, document.source)
        common.entries = {"role": spot.entries.pop("role")}
        spot.entries["defaults"] = (*entries["defaults"][:2], common)
    return replace(document, value={**tables, **fields}, root=lambda: spot, problems=[])


def _check_fields(
    value: Mapping[str, Any], schedulers: Schedulers | None, problems: Collector, is_looked_up: bool
) -> None:
    found = [*faults(value, schedulers)]
    components = value.get("components")
    if components and isinstance(components, dict) and is_looked_up:
        from launcher.components.finder import unknown_defaults

        found += unknown_defaults(components)
    for fault in found:
        name = fault.path[-1]
        where, known = fault.path, fault.known
        problems.unknown(where, fault.code, fault.message, name, known, "there are", label=fault.remedy)


def _check_exclude(value: Any, problems: Collector) -> None:
    if not isinstance(value, list):
        label = f"write [{dumps(value)}]" if isinstance(value, str) else 'such as ["tests/bad"]'
        problems.add(("exclude",), "wrong-type", f"`exclude` must be a list, not {got(value)}", label=label)
        return
    before = len(problems.found)
    for place, pattern in enumerate(value):
        if not isinstance(pattern, str):
            message = f"a pattern of `exclude` must be text, not {got(pattern)}"
            problems.add(("exclude", place), "wrong-type", message)
        elif wrong := wrong_pattern([pattern]):
            hint = "patterns are those of .dockerignore, relative to this file"
            problems.add(("exclude", place), "invalid-value", f"`{pattern[:80]}`: {wrong}", hint=hint)
    if len(problems.found) == before and (wrong := wrong_pattern(value)):
        problems.add(("exclude",), "invalid-value", f"`exclude`: {wrong}", hint="name folders in it")


def _label(name: str, value: Mapping[str, Any], problems: Collector) -> str | None:
    given = value.get(name)
    if isinstance(given, str) and re.fullmatch(LABEL[1:-1], given):
        return given
    if isinstance(given, str):
        bad_label((name,), given, name, problems)
    elif given is not None:
        problems.add((name,), "wrong-type", f"`{name}` must be text, not {got(given)}")
    return None


def _options(
    value: Any, schedulers: Schedulers | None, problems: Collector
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, options in value.items() if isinstance(value, dict) else ():
        if not isinstance(options, dict):
            continue
        if schedulers is None:
            yield name, dict(options)
        elif name in schedulers:
            opts, valid = schedulers[name](), dict[str, Any]()
            for key, given in opts.plain(options).items():
                if check_option(name, key, given, opts, problems, ("schedulers", name, key)):
                    valid[key] = given
            yield name, valid


class Checkout(NamedTuple):
    """A folder with the files of another commit: it counts as a work tree of the same repository.

    Attributes:
        root: the absolute folder of the files.
        commit, branch: for `$<git.…>`.
    """

    root: str
    origin: str
    commit: str
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Home:
    """The settings that the job files of one folder share.

    Attributes:
        root: the git work tree, else the folder of launcher.toml, else the folder itself. Absolute.
        real_root: the root without links.
        origin: the normalised git remote, else the root.
    """

    root: str
    real_root: str
    origin: str
    config: Config
    git: GitFacts


@dataclass(slots=True)
class Homes:
    """Looks up each folder, each launcher.toml and each work tree once.

    With a `checkout`, every folder belongs to it. With `is_asked` False git is not asked: the origin is then
    the root, commit and branch are assumed. With `components` False no package is searched for components.
    """

    cwd: str
    is_asked: bool = True
    allow_dirty: bool = False
    schedulers: Schedulers | None = None
    components: bool = True
    checkout: Checkout | None = None
    _folders: dict[str, Home] = field(default_factory=dict)
    _configs: dict[str, Config] = field(default_factory=dict)
    _origins: dict[str, str] = field(default_factory=dict)
    _git: dict[str, GitFacts] = field(default_factory=dict)

    def of(self, folder: str) -> Home:
        """The home of the job files in `folder`, an absolute path. Raises CommandError when git refuses."""
        if folder not in self._folders:
            self._folders[folder] = self._look_up(folder)
        return self._folders[folder]

    @property
    def variables(self) -> frozenset[str]:
        """Return the variables that all looked-up launcher.toml files declare for their job files."""
        shared = (config.shared.value for config in self._configs.values() if config.shared)
        tables = (value.get("vars", {}) for value in shared if value)
        return frozenset(name for table in tables for name in table)

    @property
    def prunes(self) -> bool:
        """Whether a looked-up launcher.toml has `prune = true` in `[ci]`."""
        return any(config.prunes for config in self._configs.values())

    def _look_up(self, folder: str) -> Home:
        if self.checkout is not None:
            root, origin, commit, branch = self.checkout
            git = GitFacts(None, _head=Head(commit, branch, False))
            config = self._config(looks.project_file(folder), root)
            return Home(root, looks.real_path(root), origin, config, git)
        tree = looks.work_tree(folder)
        path = looks.project_file(folder)
        root = tree or (os.path.dirname(path) if path else folder)
        if root not in self._origins:
            self._origins[root] = (looks.origin(tree) if tree and self.is_asked else None) or root
        if root not in self._git:
            self._git[root] = GitFacts(tree, self.allow_dirty, not self.is_asked)
        config = self._config(path, root)
        return Home(root, looks.real_path(root), self._origins[root], config, self._git[root])

    def _config(self, path: str | None, root: str) -> Config:
        if path is None:
            return Config()
        if path not in self._configs:
            shown = os.path.relpath(path, self.cwd)
            self._configs[path] = read_config(
                shown, path, self.schedulers, root=looks.real_path(root), components=self.components
            )
        return self._configs[path]
