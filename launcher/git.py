"""The git work tree of a file: its root, its origin and its commit.

Finding the root looks at folders and starts no process, so that a thousand job files cost next to nothing;
git itself is asked when the origin or the commit is wanted.

A checkout is data, its `.git` folder included: every setting by which a checkout can make git start a program
(hooks, file system monitors, filters, remotes that fetch missing objects, checks of signatures) is switched
off. Its settings also do not say where its files are, nor which contents a commit has.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple
from contextlib import contextmanager, suppress
from functools import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_EXPORT = "launcher-base-"
_TIMEOUT_S = 60.0  # seconds: a slow disk takes its time; a longer call hangs
_LOCKED_AFTER_S = 60.0  # in seconds: an older folder is locked, if its process lives
_PATHS = 500
_SUBMODULE = "160000"  # the mode of its entry in the index
MOST_COMMITS = 200
"""How many first parents of a commit are searched, for a merge or for an apply."""
_SAFE = tuple(
    word
    for setting in (
        *("core.fsmonitor=", "core.hooksPath=/dev/null", "protocol.allow=never"),
        "log.showSignature=false",  # with it, `git log` runs `gpg.program` for each signed commit
    )
    for word in ("-c", setting)
)
_SAFE_ENV = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LFS_SKIP_SMUDGE": "1",  # git-lfs takes objects that are there, and downloads none
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # `refs/replace` gives the id of a commit to other contents
    "GIT_TERMINAL_PROMPT": "0",
}
_TRUST = "git config --global --add safe.directory "  # the beginning of git's own advice
_OF_CHECKOUT = ("local", "worktree", "submodule")  # scopes of git-config(1)
_NOT_OURS = ("DIR", "WORK_TREE", "INDEX_FILE", "PREFIX", "COMMON_DIR", "OBJECT_DIRECTORY")

_Stamp = tuple[int, int, int]
_Head = namedtuple("_Head", "oid branch is_dirty")


class Head(_Head):
    """The checkout: the full id of the commit ("" before the first one), the branch ("" without one),
    and whether tracked files differ from the commit."""

    __slots__ = ()
    oid: str
    branch: str
    is_dirty: bool


class Repository:
    """A git work tree; `root` is the absolute path of its top folder."""

    def __init__(self, root: str) -> None:
        self.root = root

    @cached_property
    def origin(self) -> str | None:
        """The remote, normalised (`normalise_remote`): `origin`, else the first by name.

        Without any: for an added work tree the path of its repository, else None.

        Raises CommandError when git refuses to read the repository.
        """
        urls = {}
        for line in self._git("remote", "-v").splitlines():  # `name<TAB>url (fetch)`, after rewriting rules
            name, _, rest = line.partition("\t")
            url, mark, _ = rest.rpartition(" (fetch)")  # the URL ends here: a partial clone adds its filter
            if mark:
                urls[name] = url
        if not urls:
            return self._repository_path()
        return normalise_remote(urls.get("origin") or urls[min(urls)], self.root)

    def _repository_path(self) -> str | None:
        """The main work tree or bare repository of an added work tree; None for any other."""
        if not os.path.isfile(os.path.join(self.root, ".git")):
            return None
        own, common = self._git("rev-parse", "--git-dir", "--git-common-dir").splitlines()
        if own == common:  # true for a submodule
            return None
        folder = os.path.normpath(os.path.join(self.root, common))
        return os.path.dirname(folder) if os.path.basename(folder) == ".git" else folder

    def commit(self) -> str:
        """The full id of the commit checked out, with `-dirty` when tracked files differ; "" without any.

        Asks git anew at every call: a work tree changes.
        """
        head = self.head()
        return f"{head.oid}-dirty" if head.oid and head.is_dirty else head.oid

    def head(self) -> Head:
        """Return the commit and branch checked out. Asks git anew at every call: a work tree changes.

        Of a submodule, the commit counts and its files do not: its own configuration may name programs.
        Filters run as the user's and the system's configuration define them, never as the repository's does.
        """
        found = {"oid": "", "head": ""}
        dirty = False
        args = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
        for line in self._git(*self._own_filters(), *args).splitlines():
            mark, _, rest = line.partition(" branch.")
            name, _, value = rest.partition(" ")
            if mark == "#":
                found[name] = "" if value.startswith("(") else value  # (initial), (detached)
            dirty = dirty or not line.startswith("#")
        return Head(found["oid"], found["head"], dirty)

    def default_branch(self) -> str:
        """The branch that work is merged into: the remote's default, else main or master, else the current.

        "" without any.
        """
        of_remote = self._git("symbolic-ref", "-q", "--short", "refs/remotes/origin/HEAD", ok=(0, 1)).strip()
        if of_remote:
            return of_remote.partition("/")[2]
        listed = self._git("branch", "--list", "--format=%(refname:short)", "main", "master")
        return (listed.split() or [self.head().branch])[0]

    def ignored(self, paths: Iterable[str]) -> frozenset[str]:
        """The `paths` (below the root) that git ignores, as they were given; one process for all of them.

        Tracked files are never ignored.
        """
        text = "".join(f"{path}\0" for path in paths)
        if not text:
            return frozenset()
        found = self._git("check-ignore", "-z", "--stdin", input=text, ok=(0, 1))  # 1: no path is ignored
        return frozenset(path for path in found.split("\0") if path)

    def tracked(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The files that git tracks at or below `paths`, relative to the root as the paths are."""
        return tuple(self._listed(paths))

    def left_out(self, paths: Iterable[str]) -> set[str]:
        """Return the files among `paths` that the commit has, but a sparse checkout leaves out.

        Relative to the root, as the paths are.
        """
        return {line[2:] for line in self._listed(paths, "-t") if line.startswith("S ")}

    def _listed(self, paths: Iterable[str], *options: str) -> Iterator[str]:
        """The lines of `git ls-files` on these paths; none without paths."""
        given = [f":(literal){path}" for path in paths]
        for at in range(0, len(given), _PATHS):  # more would exceed the length of a command line
            found = self._git("ls-files", *options, "-z", "--", *given[at : at + _PATHS])
            yield from filter(None, found.split("\0"))

    def first_parents(self, commit: str = "HEAD", limit: int = MOST_COMMITS) -> list[tuple[str, str]]:
        """The ids and subjects of a commit and of its first parents, the newest first."""
        text = self._git(
            "log", "--first-parent", f"--max-count={limit}", "-z", "--format=%H %s", commit, "--"
        )
        lines = (line.partition(" ") for line in text.split("\0") if line)
        return [(oid, subject) for oid, _, subject in lines]

    def committed_at(self) -> int:
        """The time of the commit checked out, in seconds since the epoch."""
        return int(self._git("log", "--max-count=1", "--format=%ct", "HEAD", "--"))

    def later_commits(self, revision: str) -> list[tuple[str, str]]:
        """The commits of a revision and its first parents that HEAD lacks."""
        return self.first_parents(f"HEAD..{revision}")

    def commit_of(self, revision: str) -> str:
        """The full id of the commit that a revision names; "" where there is none in this clone."""
        name = f"{revision}^{{commit}}"
        found = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1)).split()
        return found[0] if len(found) == 1 else ""  # git fails for a range, and prints both ends

    def why_missing(self, revision: str) -> str:
        """Return the advice for a revision that `commit_of` does not find: the probable name, or a fetch."""
        if self.is_shallow():
            fetch = "git fetch --unshallow origin '+refs/heads/*:refs/remotes/origin/*'"
            in_ci = "`fetch-depth: 0` of actions/checkout, or `GIT_DEPTH: 0` of GitLab"
            return f"fetch all commits: `{fetch}`; in CI, {in_ci}"
        from launcher.text import did_you_mean

        known = self._git("for-each-ref", "--format=%(refname:short)").split()
        meant = did_you_mean(revision, known)
        return meant or "fetch it: `git fetch --all`; `git branch --all` lists branches"

    def merge_base(self, revision: str) -> str:
        """The newest common ancestor of a revision and the commit checked out; "" where there is none."""
        return self._git("merge-base", revision, "HEAD", ok=(0, 1, 128)).strip()

    def contains(self, commit: str) -> bool:
        """Whether a commit is the one checked out, or one before it."""
        return self.merge_base(commit) == commit

    def is_shallow(self) -> bool:
        """Whether this clone lacks old commits."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == "true"

    def text_at(self, commit: str, path: str) -> str:
        """The text of a file of a commit; "" where the commit has no such file."""
        return self._git("cat-file", "blob", f"{commit}:{path}", ok=(0, 128))

    def export(self, commit: str, folder: str, index: str) -> None:
        """Write the files of a commit below `folder`, as a checkout would. Nothing of `.git` changes.

        Filters run as for `head`. Submodules that this clone has are written, too, others are left out.

        Args:
            index: the path of a temporary file, outside of `folder`.
        """
        own = {"GIT_INDEX_FILE": index}
        try:
            self._git("read-tree", commit, env=own)
            prefix = f"--prefix={folder}/"
            self._git(*self._own_filters(), "checkout-index", "--all", "--quiet", prefix, env=own)
            has_parts = os.path.lexists(os.path.join(folder, ".gitmodules"))
            staged = self._git("ls-files", "--stage", "-z", env=own) if has_parts else ""
        finally:
            for name in (index, f"{index}.lock"):
                if os.path.exists(name):
                    os.remove(name)
        for line in staged.split("\0"):
            mode, _, rest = line.partition(" ")
            oid, _, path = rest.partition(" 0\t")
            part = Repository(os.path.join(self.root, path))
            if mode == _SUBMODULE and _stamp(part.root) is not None and part.commit_of(oid):
                part.export(oid, os.path.join(folder, path), index)

    @contextmanager
    def exported(self, commit: str) -> Iterator[str]:
        """The path of a private temporary folder with the files of a commit."""
        from fcntl import LOCK_EX, flock
        from shutil import rmtree
        from tempfile import mkdtemp

        _clear_left_behind()
        folder = os.path.realpath(mkdtemp(prefix=_EXPORT))
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            flock(lock, LOCK_EX)
            root = os.path.join(folder, "tree")
            os.mkdir(root)
            self.export(commit, root, os.path.join(folder, "index"))
            yield root
        finally:
            rmtree(folder, ignore_errors=True)
            os.close(lock)

    def _own_filters(self) -> list[str]:
        """Options that disable the filters of the repository's own configuration, which `status` may run."""
        return _without_filters(
            self._git("config", "-z", "--show-scope", "--get-regexp", r"^filter\.", ok=(0, 1))
        )

    def _git(
        self,
        *args: str,
        input: str | None = None,
        ok: Collection[int] = (0,),
        env: Mapping[str, str] | None = None,
    ) -> str:
        from launcher import command
        from launcher.errors import CommandError

        # A git hook that runs us names *its* repository in the environment. No optional locks: a plan
        # writes nothing, the index included.
        fixed: dict[str, str | None] = dict.fromkeys(f"GIT_{name}" for name in _NOT_OURS)
        # The repository's `core.worktree` would let git read another folder than the one that holds it.
        fixed |= {**_SAFE_ENV, "GIT_WORK_TREE": self.root, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        argv = ["git", *_SAFE, "-C", self.root, *args]
        try:
            return command.run(argv, input=input, timeout_s=_TIMEOUT_S, env={**fixed, **(env or {})}, ok=ok)
        except CommandError as error:
            said = map(str.strip, str(error).splitlines())
            advice = next((line for line in said if line.startswith(_TRUST)), None)
            if advice is None:
                raise
            why = f"git does not read {self.root}: another user owns it"
            raise CommandError(why, hint=f"if you trust its owner: `{advice}`") from error


def _clear_left_behind() -> None:
    """Remove the exported commits of killed processes: a minute old, and no process holds their locks."""
    from glob import glob
    from shutil import rmtree
    from tempfile import gettempdir
    from time import time

    from launcher.filelock import is_file_locked

    for folder in glob(os.path.join(gettempdir(), f"{_EXPORT}*")):
        with suppress(OSError):  # its process has just removed it, or the file system has no locks
            found = os.lstat(folder)
            is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if is_own and time() - found.st_mtime > _LOCKED_AFTER_S and not is_file_locked(folder):
                rmtree(folder, ignore_errors=True)


_NUMBER = r"\(#([1-9][0-9]{0,9})\)\s*\Z|\AMerge pull request #([1-9][0-9]{0,9}) "


def pull_request_in(subject: str) -> int | None:
    """The number of the pull request that the subject of a merge or a squashed commit names."""
    import re

    found = re.search(_NUMBER, subject)
    return int(found[1] or found[2]) if found is not None else None


_KNOWN: dict[str, tuple[_Stamp, Repository]] = {}


def repository(path: str) -> Repository | None:
    """The work tree that holds `path` (a file or folder); None without one, or when git is not installed.

    The object is shared by all paths in one work tree, until its configuration changes.
    """
    folder = os.path.abspath(path)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    while (stamp := _stamp(folder)) is None:
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    known = _KNOWN.get(folder)
    if known is None or known[0] != stamp:
        if not any(os.access(os.path.join(each, "git"), os.X_OK) for each in os.get_exec_path()):
            return None
        known = _KNOWN[folder] = (stamp, Repository(folder))
    return known[1]


def commit_of(path: str) -> str:
    """The commit of the work tree that holds `path`, with `-dirty` when files differ; "" without one."""
    found = repository(path)
    return found.commit() if found is not None else ""


def _stamp(folder: str) -> _Stamp | None:
    """A value that changes when the repository at `folder` is made or configured anew; None without one.

    `.git` is a folder with a configuration, or a file that points to one (work trees, submodules).
    """
    git = os.path.join(folder, ".git")
    for name in (os.path.join(git, "config"), git):
        try:
            found = os.stat(name)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _without_filters(listing: str) -> list[str]:
    """Return `-c` options that set each filter of the checkout's own configuration to its outside value,
    else to none. `listing` is the output of `git config -z --show-scope`.

    Raises CommandError for a name that `-c` cannot spell.
    """
    parts = listing.split("\0")
    own: dict[str, str] = {}
    others: dict[str, str] = {}
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = entry.partition("\n")
        (own if scope in _OF_CHECKOUT else others)[key] = value
    if any("=" in key for key in own):
        from launcher.errors import CommandError

        raise CommandError(
            "the repository configures a filter whose name holds `=`", hint="rename the filter"
        )
    programs = [key for key in own if key.endswith((".clean", ".smudge", ".process"))]
    required = dict.fromkeys(f"{key.rpartition('.')[0]}.required" for key in own)
    values = {**dict.fromkeys(programs, ""), **dict.fromkeys(required, "false")}
    values.update({key: others[key] for key in values if key in others})
    return [word for key, value in values.items() for word in ("-c", f"{key}={value}")]


def normalise_remote(url: str, root: str = "/") -> str:
    """Host and path of a git remote: equal for every way to write one place, free of credentials.

    ::

        https://user:secret@Host:8443/team/jobs.git   host/team/jobs
        git@host:team/jobs.git                        host/team/jobs
        ../jobs.git, file:///srv/jobs.git             /srv/jobs    (relative to `root`)

    Scheme, user, port, query and `.git` go; the host is lower case, the path is kept as written.
    """
    scheme, mark, rest = url.partition("://")
    if mark and not scheme.endswith("file"):
        authority, _, path = rest.partition("/")
        return _join(_host(authority), path.partition("?")[0].partition("#")[0])
    if not mark and ":" in url.partition("/")[0]:  # scp's form: the colon comes before any slash
        if url.startswith("[") or "@[" in url:
            host, _, path = url.partition("]:")
            return _join(_host(host + "]"), path)
        host, _, path = url.partition(":")
        return _join(_host(host), path)
    return _trimmed(os.path.normpath(os.path.join(root, rest if mark else url)))


def _host(authority: str) -> str:
    """`user:password@Host:port` → `host`; an IPv6 address keeps its brackets."""
    host = authority.rpartition("@")[2].lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _join(host: str, path: str) -> str:
    return _trimmed("/".join([host, *filter(None, path.split("/"))]))


def _trimmed(path: str) -> str:
    return path.rstrip("/").removesuffix("/.git").removesuffix(".git") or "/"
