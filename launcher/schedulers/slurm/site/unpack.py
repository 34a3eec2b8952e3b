"""Unpack the workspace of an app on the cluster: a line of JSON, then a tar stream, on the standard input.

Runs on the cluster: Python 3.6 and its standard library.
"""

import json
import os
import shutil
import sys
import tarfile
from typing import IO

MAX_HEADER = 1 << 16


def unpack(stream: IO[bytes], job_dir: str, app_id: str) -> None:
    """Unpack a tar stream into `<job_dir>/apps/<app_id>/workspace`: all of it, or nothing.

    Raises ValueError for a name that would leave that folder, FileNotFoundError for a missing app.
    """
    folder = os.path.join(os.path.expanduser(job_dir), "apps", app_id)
    whole, part = os.path.join(folder, "workspace"), os.path.join(folder, f".workspace-{os.getpid()}")
    os.mkdir(part, 0o700)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _check(member, part)
                archive.extract(member, part, numeric_owner=True)
        shutil.rmtree(whole, ignore_errors=True)
        os.rename(part, whole)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _check(member: tarfile.TarInfo, folder: str) -> None:
    name = os.path.normpath(member.name)
    if name.startswith(("/", "..")) or not (member.isreg() or member.isdir() or member.issym()):
        raise ValueError(f"unexpected member {member.name!r}")
    parent = os.path.realpath(os.path.join(folder, os.path.dirname(name)))
    root = os.path.realpath(folder)
    if parent != root and not parent.startswith(root + os.sep):
        raise ValueError(f"{member.name!r} is behind a link that leaves the workspace")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode &= 0o755


def main() -> None:
    stream = sys.stdin.buffer
    about = json.loads(stream.readline(MAX_HEADER).decode("utf-8", "surrogateescape"))
    try:
        unpack(stream, about["job_dir"], about["app_id"])
    except (OSError, ValueError, tarfile.TarError) as error:
        sys.exit(f"cannot unpack the workspace: {error}")
    print(json.dumps({"ok": []}))


if __name__ == "__main__":
    main()
