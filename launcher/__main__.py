"""`python -m launcher` and the console script. Answers `--version` before anything is imported."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (without the program's name); returns its exit code.

    Without `argv` this is the whole program: it reads `sys.argv` and ends the process.
    """
    if argv is not None:
        return _run(list(argv))
    gc.set_threshold(1_000_000)  # more new objects than a plan of 10,000 jobs keeps, which has no garbage
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command's own handler was installed
        code = 130
    return _leave(code)


def _run(words: list[str]) -> int:
    if words == ["--version"] and sys.stdout is not None:
        from launcher import __version__

        try:
            print(f"launcher {__version__}", flush=True)
            return 0
        except OSError:
            pass  # tried again below, where a failure is reported
    from launcher.cli.main import main as run

    return run(words)


def _leave(code: int) -> NoReturn:
    """End the process without finalising the interpreter, which takes as long as the quickest commands do."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            pass  # already reported, as far as possible
    os._exit(code)


if __name__ == "__main__":
    main()
