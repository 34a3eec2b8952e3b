"""The local scheduler: apps as processes of this machine, each with its own supervisor.

All state is in the state folder, where other processes can read it.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from launcher import paths
from launcher.errors import StateError
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.backend import EngineScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.local.filewatch import AppsWatch
    from launcher.schedulers.local.observe import LocalApps
    from launcher.schedulers.local.outputs import LocalOutputs
    from launcher.schedulers.local.popen import PopenRequest
    from launcher.schedulers.local.request import ImageProvider
    from launcher.schedulers.local.submit import LocalReservation, Submitter
    from launcher.schedulers.readback import AppLogs
    from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.check import Problem
    from launcher.specs.runopts import runopts
    from launcher.state.records import AppRecord

CWD = "local_cwd"
DIR = "local_dir"


class LocalScheduler(EngineScheduler["PopenRequest"]):
    """Runs apps as local processes.

    Args:
        image_provider_class: decides where roles run, instead of the backend's own class.
        cache_size: accepted for compatibility, at least 1, and without effect: this scheduler knows every
            app of the state folder.
        extra_paths: folders in front of each replica's PATH.
        backend: local_cwd (the image is ignored) or local_dir (the image is the working folder); by default
            local_dir for a LocalDirectoryImageProvider, else local_cwd.
        detach: apps outlive this object and its process; otherwise they are cancelled with it.

    Raises ValueError for a `cache_size` below 1.
    """

    supports = ("retry_delay", "service", "ready", "depends_on", "hosts")
    holds = frozenset({CWD, DIR})
    judges_fields_alone = True

    def __init__(
        self,
        session_name: str,
        image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] | None = None,
        cache_size: int = 100,
        extra_paths: Sequence[str] | None = None,
        *,
        backend: str = "",
        detach: bool = False,
    ) -> None:
        if cache_size < 1:
            raise ValueError(f"want a cache_size of at least 1, got {cache_size}")
        super().__init__(backend or _backend_of(image_provider_class), session_name, detach=detach)
        self._provider = image_provider_class
        self._extra_paths = tuple(extra_paths or ())
        if self.backend == CWD:
            self.workspace_option = "cwd"
        else:
            self.no_workspace_hint = "make the folder the image of the roles, or use local_cwd"
        self._made: Submitter | None = None
        self._lock = allocate_lock()
        self._watch: AppsWatch | None = None

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.local.popen import options

        return options(self.backend)

    def checkout_folder(self, image: str, cfg: Mapping[str, CfgVal]) -> str | None:
        images = self._images(cfg)
        try:
            return images.get_cwd(image) or images.default_cwd
        except ValueError:  # the image is not a folder; the dry run reports that
            return None

    def _images(self, cfg: Mapping[str, CfgVal]) -> ImageProvider:
        from launcher.schedulers.local.request import CWDImageProvider, LocalDirectoryImageProvider

        default = LocalDirectoryImageProvider if self.backend == DIR else CWDImageProvider
        return (self._provider or default)(cfg)

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        from launcher.schedulers.local.popen import problems

        return [*problems(app, cfg)]

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[PopenRequest]:
        from launcher.specs.app import AppDryRunInfo

        return AppDryRunInfo(self._request(app, cfg, self.session_name), str)

    def _request(self, app: AppDef, cfg: Mapping[str, CfgVal], session: str) -> PopenRequest:
        """Build the request; reads the current folder. Raises ImageError for a missing working folder."""
        from launcher.schedulers.local.request import build_request

        images = self._images(cfg)
        made = build_request(
            app,
            cfg,
            scheduler=self.backend,
            session=session,
            apps_dir=paths.local_apps(),
            images=images,
            extra_paths=self._extra_paths,
        )
        for role in app.roles:
            images.check(role)
        return made

    @property
    def _submitter(self) -> Submitter:
        from launcher.schedulers.local.submit import Submitter

        with self._lock:
            if self._made is None:
                self._made = Submitter(self.output_folders)
            return self._made

    def launch(self, app_id: str, info: AppDryRunInfo[PopenRequest]) -> None:
        """Start an app; returns when every replica has started, or the app is in line.

        Raises StartError, with the app removed, when a replica cannot be started; SchedulerError for a
        request that was edited in a field without effect.
        """
        from launcher.schedulers.record import attempt_of_app

        attempt = attempt_of_app(info.app, info.cfg, self.backend, self.session_name, app_id)
        self._submitter.run(attempt, info, attached=not self._detach, in_turn=self.in_turn)

    def fingerprint(self) -> str:
        """The identity of this machine and this state folder."""
        from launcher.hashes import sha256

        try:
            with open("/etc/machine-id", encoding="utf-8") as file:
                machine = file.read().strip()
        except (OSError, ValueError):
            machine = os.uname().nodename
        text = f"{machine}\0{os.path.realpath(paths.local())}"
        return f"local:{sha256(text.encode(errors='surrogateescape')).hexdigest()[:16]}"

    def on_this_machine(self) -> bool:
        return True

    def claim(self, attempt: Attempt) -> LocalReservation:
        from launcher.schedulers.local.submit import LocalReservation

        return LocalReservation(attempt, self._submitter, self._request)

    def leave(self, app_id: str) -> None:
        if self._made is not None:
            self._made.leave(app_id)

    def close(self) -> None:
        """Cancel the attached apps, and wait until they have ended."""
        if self._made is not None:
            self._made.close(self.cancel)
            self._made = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    # Reading

    def warnings(self, app_id: str) -> Sequence[str]:
        seen = self._seen(app_id)
        return [] if seen is None else seen.record.warnings

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        from launcher.schedulers.local import appview
        from launcher.schedulers.local.appview import app_record

        unread: StateError | None = None
        for app_id in filter(is_id, app_ids):
            try:
                view = appview.read_state(paths.local_app(app_id))
                if view is None:
                    appview.check_gone(paths.local_app(app_id))
            except StateError as error:
                unread = unread or error
                continue
            if view is not None and not view.abandoned:
                yield app_record(self.backend, self.session_name, app_id, view)
        if unread is not None:  # after all others
            raise unread

    def changed(self, app_ids: Collection[str], timeout_s: float = 0.0) -> Collection[str]:
        """The apps with new events, as the kernel reports them. The death of a supervisor is no change."""
        from launcher.schedulers.local.filewatch import AppsWatch

        self._watch = self._watch or AppsWatch()
        return self._watch.changed({*app_ids}, timeout_s)

    def has_apps_here(self) -> bool:
        return True

    @property
    def apps(self) -> LocalApps:
        from launcher.schedulers.local.observe import LocalApps

        return LocalApps(self.backend, self.session_name, self.on_wait, self.store)

    # Outputs and logs

    @property
    def output_folders(self) -> LocalOutputs:
        from launcher.schedulers.local.outputs import LocalOutputs

        return LocalOutputs(self.backend, os.path.join(paths.local(), "outputs"))

    def logs(self, app_id: str) -> AppLogs:
        from launcher.schedulers.local.logs import LocalLogs

        return LocalLogs(paths.local_app(app_id))


def _backend_of(provider: Callable[[Mapping[str, CfgVal]], ImageProvider] | None) -> str:
    if not isinstance(provider, type):
        return CWD
    from launcher.schedulers.local.request import LocalDirectoryImageProvider

    return DIR if issubclass(provider, LocalDirectoryImageProvider) else CWD


def create_scheduler(
    session_name: str,
    cache_size: int = 100,
    extra_paths: Sequence[str] | None = None,
    image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] | None = None,
    *,
    detach: bool = False,
    backend: str = "",
    **_: object,
) -> LocalScheduler:
    """Replicas run as processes of this machine, in option `cwd`, or the folder of the job file."""
    return LocalScheduler(
        session_name, image_provider_class, cache_size, extra_paths, backend=backend, detach=detach
    )


def create_dir_scheduler(session_name: str, **params: Any) -> LocalScheduler:
    """Replicas run in their role's image, an absolute existing folder."""
    return create_scheduler(session_name, **{**params, "backend": DIR})
