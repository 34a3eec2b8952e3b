"""Run a program of a node: `python3 -I -S app.zip conduct APP_DIR …` or `… replica APP_DIR …`.

Python >= 3.6, the standard library alone.
"""

import os
import sys
from importlib import import_module

if __name__ == "__main__":
    program, folder, *rest = sys.argv[1:]
    if program not in ("conduct", "replica"):
        sys.exit("want conduct or replica, got " + program)
    module = import_module("launcher.schedulers.slurm.site." + program)  # each loads only what it needs
    sys.exit(module.main(os.path.abspath(folder), *rest))
