"""`python -m launcher` and the console script. Answers `--version` before anything is imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. `argv` is without the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"] and sys.stdout is not None:
        from launcher import __version__

        print(f"launcher {__version__}")
        return 0
    from launcher.cli.main import main as run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
