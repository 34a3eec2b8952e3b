"""Remove what is left of an app: its jobs, then its directory."""

import errno
import os
import shutil
from typing import Any, Callable, List

from launcher.schedulers.slurm.site.agent.app import is_removed, reserved, state_of
from launcher.schedulers.slurm.site.agent.folder import Folder, token
from launcher.schedulers.slurm.site.agent.site import Site


def remove_tree(path: str) -> None:
    """Remove a directory with all contents, also read-only ones; another process may do the same."""

    def retry(function: Callable[[str], Any], at: str, _: Any) -> None:
        try:
            os.chmod(os.path.dirname(at), 0o700)
            if os.path.isdir(at) and not os.path.islink(at):
                os.chmod(at, 0o700)
                shutil.rmtree(at, ignore_errors=True)
            else:
                function(at)
        except OSError:
            pass  # sweep tries again

    shutil.rmtree(path, onerror=retry)


def dismantle(site: Site, folder: Folder) -> None:
    """Remove an app of which nothing has started; the caller is its owner, or completes what one began.

    Raises OpError reserved when it was started just now.
    """
    at = folder.owner()[1]
    started = folder.json("started")
    if started is None and at and not folder.link_to(at, "started"):
        started = folder.json("started")
    if started is not None and not is_removed(started):
        raise reserved(folder, state_of(folder), None)
    cancel_jobs(site, folder)
    put_away(site, folder)


def cancel_jobs(site: Site, folder: Folder, but: str = "") -> List[str]:
    """Cancel all jobs of an app; without a call when none was ever submitted."""
    if "submitting" not in folder.names():
        return []
    jobs = [row.job for row in site.rows_of(folder) if not row.is_over and row.job != but]
    site.slurm.cancel(jobs)
    return jobs


def put_away(site: Site, folder: Folder) -> None:
    """Remove an app directory: out of the list first, at once, then its contents."""
    gone = os.path.join(site.apps, f".gone-{folder.app_id}-{token()}")
    path = site.path(folder.app_id)
    if not folder.is_at(path):
        return  # another client was faster
    try:
        os.rename(path, gone)
    except FileNotFoundError:
        return
    if not folder.is_at(gone):  # another client had removed it and made a new one, between these two lines
        try:
            os.rename(gone, path)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else there is a newer one by now: the owner of this one learns it at its next act
    remove_tree(gone)
