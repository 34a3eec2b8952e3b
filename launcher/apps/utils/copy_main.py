"""Copy one file: `python -m launcher.apps.utils.copy_main --src FROM --dst TO`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from typing import IO
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen


def main(argv: Sequence[str] | None = None) -> int:
    """Copy the whole file, or leave the target as it was. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="copy_main", description="Copy one file.")
    parser.add_argument("--src", required=True, help="a path, file:// or http(s):// address")
    parser.add_argument("--dst", required=True, help="a path or file:// address; a folder keeps the name")
    args = parser.parse_args(argv)
    try:
        copy(args.src, args.dst)
    except (OSError, ValueError) as error:
        print(f"error: cannot copy {args.src} to {args.dst}: {error}", file=sys.stderr)
        return 1
    return 0


def copy(src: str, dst: str) -> None:
    """Copy a file. Raises OSError, and ValueError for an address with another scheme."""
    target = _path(dst)
    if os.path.isdir(target):
        target = os.path.join(target, os.path.basename(urlsplit(src).path))
    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    with _open(src) as source, tempfile.NamedTemporaryFile(dir=folder, delete=False) as copied:
        try:
            shutil.copyfileobj(source, copied)
            copied.close()
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(copied.name, 0o666 & ~mask)
            os.replace(copied.name, target)
        except BaseException:
            os.unlink(copied.name)
            raise


def _open(address: str) -> IO[bytes]:
    if urlsplit(address).scheme in ("http", "https"):
        opened: IO[bytes] = urlopen(address, timeout=60)
        return opened
    return open(_path(address), "rb")


def _path(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return unquote(parts.path)
    if "://" in address:
        raise ValueError(f"addresses of the kind {parts.scheme}:// are not known here")
    return os.path.expanduser(address)


if __name__ == "__main__":
    sys.exit(main())
