"""The run options of every scheduler, made on demand, for those who must not import schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from launcher.schedulers.registry import get_scheduler_factories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.specs import runopts


class RunOptions(Mapping[str, "Callable[[], runopts]"]):
    """Scheduler name → function that gives its run options, the same ones each time."""

    def __init__(self) -> None:
        self._factories = get_scheduler_factories()
        self._made: dict[str, runopts] = {}

    def __getitem__(self, name: str) -> Callable[[], runopts]:
        factory = self._factories[name]

        def options() -> runopts:
            if name not in self._made:
                self._made[name] = factory("launcher").run_opts()
            return self._made[name]

        return options

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)
