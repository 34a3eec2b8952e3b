"""Check an attempt link by link, from its pull request to the files that it left, against every record of it.

A link is checked where something other than its own record confirms it: a digest that was computed again, a
commit of this clone, another record. Nothing is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations, product
from typing import Any, Literal, get_args

from launcher.dataclass import dataclass, replace
from launcher.errors import LauncherError
from launcher.git import pull_request_in, repository
from launcher.inventory import recorded
from launcher.inventory.attempts import attempt_of, attempts_of
from launcher.inventory.recorded import scheduler_of
from launcher.plan.effects import Start
from launcher.schedulers.contents import SIZES, is_digest
from launcher.schedulers.staged import StagedScheduler
from launcher.specs import canonical
from launcher.specs.attempt import ENDED_STATES, Attempt, ImageNow, Recorded
from launcher.specs.binding import bind_workspace
from launcher.specs.inputs import earlier, named
from launcher.specs.launch import ProjectRef, WorkspaceRef
from launcher.specs.outputs import own_output
from launcher.state.records import AppRecord
from launcher.workspace import manifest
from launcher.workspace.context import project_digest
from launcher.workspace.ignore import WorkspaceError

Mark = Literal["checked", "missing", "wrong"]
MARKS: tuple[Mark, ...] = get_args(Mark)
LINKS = ("pull request", "approval", "document", "workspace", "image", "exit", "outputs")
LEDGER = "the ledger"
_SHORT = 7
_MOST_PROJECTS = 5
_NEVER = " (rerun: never)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the chain.

    Attributes:
        value: the recorded value, such as a digest; "" for none.
        why: a phrase about the confirmation, or why the link cannot be checked.
        expected, found: the differing values of a wrong link.
    """

    name: str
    mark: Mark
    value: str = ""
    why: str = ""
    expected: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """An attempt, the records that it was read from, and its links."""

    attempt: Attempt
    records: Sequence[str]
    links: Sequence[Link]

    def marked(self, mark: Mark) -> list[Link]:
        return [link for link in self.links if link.mark == mark]


def verify(app: AppRecord) -> Chain:
    """Check the attempt of an app. Raises LauncherError for an app of no job."""
    scheduler = scheduler_of(app)
    attempt = attempt_of(app)
    assert isinstance(scheduler, StagedScheduler), "only such a scheduler has attempts"
    of_ledger = recorded.attempt(app.app_id)
    records = [Recorded(LEDGER, of_ledger, of_ledger.state in ENDED_STATES)] if of_ledger else []
    away = ""
    try:
        records += scheduler.recorded(app.app_id)
    except LauncherError as error:
        away = str(error)
    for each in records:  # only some records know, for example, how it ended
        if attempt.is_live and each.is_outcome and each.attempt.state in ENDED_STATES:
            attempt = replace(attempt, state=each.attempt.state, exit_code=each.attempt.exit_code)
        attempt = replace(
            attempt,
            output_digest=attempt.output_digest or each.attempt.output_digest,
            images=attempt.images or each.attempt.images,
        )
    checks = _Checks(attempt, records or [Recorded("the engine", attempt)], scheduler, app, away)
    return Chain(attempt=attempt, records=[each.name for each in checks.records], links=checks.links())


class _Checks:
    """The checks of one attempt.

    Args:
        away: why the engine cannot be asked; "" where it has answered.
    """

    def __init__(
        self,
        attempt: Attempt,
        records: Sequence[Recorded],
        scheduler: StagedScheduler[Any],
        app: AppRecord,
        away: str,
    ) -> None:
        self.attempt, self.records = attempt, records
        self._scheduler, self._app, self._away = scheduler, app, away
        self._tree = repository(os.getcwd())
        if self._tree is None or attempt.origin not in (self._tree.origin, self._tree.root):
            is_here = os.path.isabs(attempt.origin) and os.path.isdir(attempt.origin)
            self._tree = repository(attempt.origin) if is_here else None
        self._commit = attempt.commit.partition("-")[0]

    def links(self) -> list[Link]:
        """The links in the order of the chain. Records that contradict each other make a link wrong."""
        return [
            self._judged("pull request", self._pull_request, "pull_request", "run_url", "commit"),
            self._judged("approval", self._approval, "approval", "effect", "review", "receivers"),
            self._judged("document", self._document, "digest", "document"),
            self._judged("workspace", self._workspace),
            self._judged("image", self._image, "images"),
            self._judged("exit", self._exit),
            self._judged("outputs", self._outputs, "output_digest"),
        ]

    def _judged(self, name: str, check: Callable[[], Link], *fields: str) -> Link:
        try:
            return self._contradiction(name, fields) or check()
        except (LookupError, TypeError, AttributeError, ValueError) as error:  # a user has written the record
            why = f"its document cannot be read: {type(error).__name__}: {error}"
            return Link(name=name, mark="wrong", why=why, expected="a document", found="another value")

    def _contradiction(self, name: str, fields: Sequence[str]) -> Link | None:
        """Return a wrong link for a field in which two records differ; None if they agree.

        A record that was made before the end lacks images and output digest.
        """
        for field in fields:
            known = [(each.name, getattr(each.attempt, field)) for each in self.records]
            if field in ("images", "output_digest"):
                known = [each for each in known if each[1]]
            for (first, old), (other, new) in pairwise(known):
                if old != new:
                    expected, found = f"{first} has {_text(old)}", f"{other} has {_text(new)}"
                    why = f"records differ in `{field}`"
                    return Link(name=name, mark="wrong", why=why, expected=expected, found=found)
        return None

    # -- from the pull request to the document -------------------------------------------------------------

    def _pull_request(self) -> Link:
        number = self.attempt.pull_request
        found = self._link("pull request", f"#{number}" if number else "")
        if not number:
            why = f"its commit came from none, in {self.attempt.run_url}" if self.attempt.run_url else ""
            return found("missing", why or "not recorded: it was applied outside of CI")
        if self._tree is None or not self._has_commit:
            return found("missing", self._no_commit)
        for oid, subject in self._tree.first_parents(self._commit):
            if str(pull_request_in(subject)) == number:
                return found("checked", f"commit {oid[:_SHORT]} of this clone merges it")
        why = f"no commit up to {self._commit[:_SHORT]} names it; --online asks GitHub"
        return found("missing", why)

    def _approval(self) -> Link:
        found = self._link("approval", self.attempt.approval)
        effect = self.attempt.effect
        if not (effect and self.attempt.review):
            return found("missing", "not recorded: an older version of launcher submitted it")
        made = next(iter(self._effects()))
        if effect != made and effect not in self._effects():
            workspace, why = self._workspace_ref, ""
            if workspace is not None and len(workspace.parts) > _MOST_PROJECTS:
                why = "its workspace has too many projects"
            elif self.attempt.trigger_digest:
                why = "`rerun_on` was edited since"
            elif self.attempt.action == "resume":
                why = "it was resumed"
            if why:
                return found("missing", f"{effect} cannot be computed again: {why}")
            return found("wrong", "its effect is not that of its record", expected=effect, found=made)
        if not self.attempt.approval:
            return found("missing", f"not recorded: it was applied without one; {effect} is its effect")
        online = "; --online asks whether the approval holds that" if self.attempt.pull_request else ""
        return found("checked", f"{effect} is its effect{online}")

    def _effects(self) -> Iterator[str]:
        """Return the effects that the attempt may have had.

        Plans add the digests of newly watched files to the record, and documents have no order of projects.
        """
        each, workspace = self.attempt, self._workspace_ref
        digests = [part.digest for part in workspace.parts] if workspace is not None else []
        needs = tuple(f"{need.job}{_NEVER if need.job in each.order_only else ''}" for need in each.needs)
        to = tuple(each.receivers.split("\n")) if each.receivers else ()
        for trigger, order in product(earlier(each.trigger_digest), permutations(digests[:_MOST_PROJECTS])):
            workspaces = " ".join(order)
            fixed = (each.key, each.review, workspaces, trigger, each.inputs, needs, each.origin, each.path)
            yield Start(*fixed, to).digest

    def _document(self) -> Link:
        found = self._link("document", self.attempt.digest)
        if self.attempt.digest.partition(":")[0] != canonical.VERSION:
            return found("missing", "an older version of launcher made its digest")
        made = canonical.digest(self.attempt.document)
        if made != self.attempt.digest:
            why = "its document has another digest"
            return found("wrong", why, expected=self.attempt.digest, found=made)
        names = [each.name for each in self.records]
        return found("checked", f"computed again; {named(names)} agree" if names[1:] else "computed again")

    # -- workspace -----------------------------------------------------------------------------------------

    @property
    def _workspace_ref(self) -> WorkspaceRef | None:
        return canonical.to_workspace(self.attempt.document.get("workspace"))

    def _workspace(self) -> Link:
        ref, commit = self._workspace_ref, self._commit[:_SHORT]
        parts = ref.parts if ref is not None else ()
        found = self._link("workspace", " ".join(part.digest for part in parts))
        if ref is None:
            return found("checked", "none: no files travelled with the job")
        root = self._tree.root if self._tree is not None else self.attempt.origin
        if outside := [part.path for part in ref.parts if not self._place(part, root)]:
            return found("missing", f"not checked: {outside[0]} is outside of the repository")
        if self._has_commit and self._commit == self.attempt.commit and self._tree is not None:
            with self._tree.exported(self._commit) as exported:
                differs = self._differing(ref, exported)
            if not differs:
                return found("checked", f"commit {commit} has these files")
            return found("wrong", **differs, why=f"commit {commit} has other files")
        if os.path.isabs(root) and not self._differing(ref, root):
            return found("checked", "the checkout here has these files")
        if self._commit and self._commit != self.attempt.commit:
            return found("missing", f"not checked: the checkout had edited files, of commit {commit}")
        return found("missing", self._no_commit)

    def _differing(self, ref: WorkspaceRef, root: str) -> dict[str, str]:
        """Return the first part with other files below `root`; {} for none."""
        for part in ref.parts:
            path = self._place(part, root)
            try:
                made = project_digest(path)
            except WorkspaceError as error:
                made = str(error).replace(root, ".")
            if made != part.digest:
                return {"expected": f"{made}{_files(made, part.digest)}", "found": part.digest}
        return {}

    def _place(self, part: WorkspaceRef | ProjectRef, root: str) -> str:
        """Return the path of a part below `root`; "" for a part outside of it."""
        directory = os.path.join(root, os.path.dirname(self.attempt.path))
        path = bind_workspace(part.path, directory=directory, home=os.path.expanduser("~"))
        inside = os.path.realpath(path).startswith(os.path.realpath(root) + os.sep)
        return path if inside or os.path.realpath(path) == os.path.realpath(root) else ""

    @property
    def _has_commit(self) -> bool:
        oid = self._commit  # the full id, since a record that a user has written may name a branch
        return bool(self._tree is not None and oid and self._tree.commit_of(oid) == oid)

    @property
    def _no_commit(self) -> str:
        if not self._commit:
            return "not recorded: its job file was in no commit"
        if self._tree is None:
            return f"not checked: run it in a clone of {self.attempt.origin}"
        return f"not checked: this clone has no commit {self._commit[:_SHORT]}; fetch it"

    # -- from the image to the outputs ---------------------------------------------------------------------

    def _image(self) -> Link:
        images = ", ".join(f"{role}: {image}" for role, image in sorted(self.attempt.images.items()))
        found = self._link("image", images)
        if self._away:
            return found("missing", f"not checked: {self._away}")
        wanted = {str(role["name"]): str(role.get("image") or "") for role in self.attempt.document["roles"]}
        now = self._scheduler.images_now([*wanted.values(), *self.attempt.images.values()])
        if now is None:
            return found("checked", f"none: {self.attempt.scheduler} runs programs of its machines")
        if not self.attempt.images:
            return found("missing", "not recorded: its containers are gone, or have not run")
        having = [each.name for each in self.records if each.attempt.images]
        ran = self.attempt.images.items()
        judged = [self._of_role(wanted[role], id, now) for role, id in ran if role in wanted]
        wrong = next((why for mark, why in judged if mark == "wrong"), "")
        if wrong:
            why = "the image is not the one of the document"
            return found("wrong", why, expected=wrong, found=images)
        words = list(dict.fromkeys(why for _, why in judged if why))
        if len(having) > 1:
            words.insert(0, f"{named(having)} agree")
        is_checked = len(having) > 1 or all(mark == "checked" for mark, _ in judged)
        return found("checked" if is_checked else "missing", "; ".join(words))

    def _of_role(self, name: str, id: str, now: Mapping[str, ImageNow]) -> tuple[Mark, str]:
        """Judge the image of one role, and return the reason; for "wrong", also the expected image."""
        image = now.get(id)
        workspace = self._workspace_ref
        if workspace is not None and not workspace.projects:
            if image is None:
                return "missing", f"the image built on {name} is gone"
            if image.workspace != workspace.digest:
                return "wrong", f"an image built from {workspace.digest}"
            return "checked", f"built from the workspace on {name}"
        if "@sha256:" in name:
            digest = name.partition("@")[2]
            if image is None:
                return "missing", f"{name} is gone"
            is_it = any(each.endswith(f"@{digest}") for each in image.digests)
            return ("checked", f"it is {name}") if is_it else ("wrong", name)
        if name not in now:
            return "missing", f"{name} is gone"
        if now[name].id == id:
            return "checked", f"{name} names it"
        return "missing", f"{name} names another image now"

    def _exit(self) -> Link:
        code, state = self.attempt.exit_code, self.attempt.state
        found = self._link("exit", f"{state} ({code})" if code is not None and state == "failed" else state)
        if self.attempt.state not in ENDED_STATES:
            return found("missing", "it has not ended")
        ends = [each for each in self.records if each.is_outcome and each.attempt.state in ENDED_STATES]
        for first, other in pairwise(ends):
            old, new = ((each.attempt.state, each.attempt.exit_code) for each in (first, other))
            if old[0] != new[0] or (None not in (old[1], new[1]) and old[1] != new[1]):
                return found("wrong", "records differ in how it ended", **_pair(first, other))
        shown = [each for each in self.records if not each.is_outcome and each.attempt.state in ENDED_STATES]
        for each in shown if ends else ():
            # The states of replicas rule out some ends, but do not show why the replicas were stopped.
            end, seen = ends[0].attempt, each.attempt.state
            is_failure = end.state == "failed" and bool(end.exit_code)
            if (end.state == "succeeded" and seen == "failed") or (is_failure and seen == "succeeded"):
                return found("wrong", "records differ in how it ended", **_pair(ends[0], each))
        names = [each.name for each in (*ends, *shown)]
        if len(names) < 2:
            return found("missing", f"nothing confirms it beside {names[0] if names else 'the engine'}")
        return found("checked", f"{named(names)} agree")

    def _outputs(self) -> Link:
        digest = self.attempt.output_digest
        found = self._link("outputs", digest)
        if not self.attempt.output:
            return found("checked", "none: the job has no output folder")
        if self.attempt.state != "succeeded":
            return found("missing", "not recorded: it has not succeeded")
        if digest and not is_digest(digest):
            return found("missing", f"not recorded: {digest}")
        # The later attempts that ran with the same output folder.
        same = [
            each.number
            for each in attempts_of(self._app)
            if each.number > self.attempt.number
            and each.edition == self.attempt.edition
            and each.started_at is not None
        ]
        if later := min(same, default=None):
            return found("missing", f"not checked: attempt {later} used the same folder since")
        try:
            folders = self._scheduler.output_folders
            is_there = own_output(self.attempt) in folders.names()
            now = folders.digest(self.attempt) if is_there else ""
            engine = "" if is_there else folders.elsewhere(self.attempt)
        except LauncherError as error:
            return found("missing", f"not checked: {error}")
        if not is_there:
            where = f"at the engine {engine}" if engine else "gone"
            return found("missing", f"not checked: the folder is {where}: {self.attempt.output}")
        if not digest:
            why = "not recorded: it was empty, hashing was cut short, or an older version ran it"
            return found("missing", why) if now else found("checked", "it has no file")
        if now != digest:
            return found("wrong", "its files have changed", expected=digest, found=now or "no file")
        what = "names and sizes of its files" if digest.startswith(SIZES) else "its files"
        return found("checked", f"{what} computed again")

    def _link(self, name: str, value: str) -> Callable[..., Link]:
        def made(mark: Mark, why: str = "", *, expected: str = "", found: str = "") -> Link:
            return Link(name=name, mark=mark, value=value, why=why, expected=expected, found=found)

        return made


def _pair(first: Recorded, other: Recorded) -> dict[str, str]:
    old, new = (f"{each.name} has {each.attempt.state}, {each.attempt.exit_code}" for each in (first, other))
    return {"expected": old, "found": new}


def _files(made: str, recorded_digest: str) -> str:
    """Return the files that differ, if the list of the recorded files is known here."""
    changed = manifest.changed_paths(made, recorded_digest)
    return f" ({', '.join(changed[:3])})" if changed else ""


def _text(value: Any) -> str:
    """The value of a field, for a message; a document by its digest."""
    if isinstance(value, Mapping) and "roles" in value:
        return canonical.digest(value)
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
