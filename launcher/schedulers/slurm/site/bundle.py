"""Run the agent from modules that come with the request: nothing is installed on the login node.

The standard input has a line with a number, that many bytes of modules, and the request. The modules are
JSON, module name → source, compressed. Each is compiled at its import, so a request pays only for its own.
Runs on the cluster: Python 3.6 and its standard library.
"""

import json
import sys
import zlib
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any, Dict, Optional

MAIN = "launcher.schedulers.slurm.site.agent.site"


class Sources:
    """Imports modules from their source. A package without source is empty; no other `launcher` is used."""

    def __init__(self, texts: Dict[str, str]) -> None:
        self._texts = texts

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        if name.partition(".")[0] != "launcher":
            return None
        is_package = any(each.startswith(name + ".") for each in self._texts)
        if not is_package and name not in self._texts:
            return None
        return ModuleSpec(name, self, origin=name, is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: the default module is used."""

    def exec_module(self, module: Any) -> None:
        text = self._texts.get(module.__name__, "")
        exec(compile(text, module.__name__, "exec"), module.__dict__)


def main() -> None:
    stream = sys.stdin.buffer
    texts = zlib.decompress(stream.read(int(stream.readline())))
    sys.meta_path.insert(0, Sources(json.loads(texts.decode("utf-8"))))  # type: ignore[arg-type]
    import_module(MAIN).main()


if __name__ == "__main__":
    main()
