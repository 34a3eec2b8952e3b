"""Random worlds: replicas that end as they like, and holders that die at any moment."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from launcher.holding.app import App
from launcher.holding.hold import hold, implied_end
from tests.holding.histories import START_S, created

ROLES = ("a", "b", "c")


class HolderDied(Exception):
    """The holder has died; its record and its processes remain."""


class World:
    """Processes that start, get ready and end at random; a driver and a record of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.roles = self._roles()
        self.record: list[dict[str, Any]] = [created(self.roles), {"e": "starting"}]
        for event in self.record:
            event["t"] = int(START_S * 1e9)
        self.running: dict[tuple[str, int], bool] = {}  # whether it was asked to stop
        self.starts: dict[tuple[str, int], int] = {}
        self.time = START_S
        self.facts: list[dict[str, Any]] = []
        self.left = 60  # turns of chance; then everything ends well

    def _roles(self) -> str:
        made, names = [], ROLES[: self.random.randint(1, 3)]
        for at, name in enumerate(names):
            service = ".s" if at and self.random.random() < 0.3 else ""
            retries = self.random.choice(["", "~1", "~2A", "~1R", "~1R+5", "~2+3", "~1A+2"])
            waits = f"<{names[at - 1]}:{self.random.choice(['started', 'ready'])}" if at else ""
            made.append(
                f"{name}*{self.random.randint(1, 3)}{service}{retries}{waits * (self.random.random() < 0.5)}"
            )
        return " ".join([*made, *(["%30"] if self.random.random() < 0.3 else [])])

    # -- the record ----------------------------------------------------------------------------------------

    def append(self, event: dict[str, Any]) -> None:
        event.setdefault("t", int(self.time * 1e9))
        self.record.append(event)
        self._may_die()

    def is_written(self) -> bool:
        return True

    def _may_die(self) -> None:
        if self.left and self.random.random() < 0.02:
            raise HolderDied

    # -- the driver ----------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.time

    def start(self, replicas: Sequence[Any]) -> None:
        for each in replicas:
            where = (each.role.name, each.k)
            assert where not in self.running, "it runs already"
            if self.left and self.random.random() < 0.03:
                self._add("exit", where, code=127, why="no such file")
                continue
            self.starts[where] = self.starts.get(where, 0) + 1
            self.running[where] = False
            self._add("spawn", where, pid=1, start=self.starts[where], restart=each.restarts)
            self._may_die()

    def stop(self, replicas: Sequence[tuple[Any, float | None]]) -> None:
        for each, _ in replicas:
            where = (each.role.name, each.k)
            if where in self.running:
                self.running[where] = True

    def quiet(self) -> None:
        assert not self.running
        self.facts.append({"e": "quiet"})

    def wait(self, deadline: float | None) -> Iterator[dict[str, Any]]:
        if not self.facts:
            self._pass_time(deadline)
        found, self.facts = self.facts, []
        return iter(found)

    def _pass_time(self, deadline: float | None) -> None:
        self.left = max(0, self.left - 1)
        if not self.running:
            assert deadline is not None, f"it waits for ever: {self.roles}"
            self.time = max(self.time, deadline)
            return
        self.time += self.random.random()
        if self.left and self.random.random() < 0.02:
            self.facts.append({"e": "cancel", "by": "me"})
        where = self.random.choice(sorted(self.running))
        if self.random.random() < 0.3:
            self._add("ready", where)
        else:
            self._end(where)

    def _end(self, where: tuple[str, int]) -> None:
        is_stopped = self.running.pop(where)
        code = self.random.choice([0, 0, 0, 3]) if self.left else 0
        self._add("exit", where, code=code, **({"stopped": True} if is_stopped else {}))

    def _add(self, kind: str, where: tuple[str, int], **fields: Any) -> None:
        self.facts.append({"e": kind, "role": where[0], "k": where[1], **fields})


def fold(events: Sequence[dict[str, Any]]) -> App:
    app = App()
    for event in events:
        app.take(event)
    return app


def see(world: World, app: App) -> None:
    """Record the facts that a dead holder has missed, as the next one of containers does."""
    world.facts = []
    for each in app.replicas:
        where = (each.role.name, each.k)
        if where in world.running and each.run[1] != world.starts[where]:
            world._add("spawn", where, pid=1, start=world.starts[where], restart=each.restarts)
        elif where in world.running:
            world.running[where] = False
        elif each.state == "running":
            world._add("exit", where, code=0)
    for fact in world.facts:
        fact["t"] = int(world.time * 1e9)
        world.record.append(fact)
        app.take(fact)
    world.facts = []


def played(seed: int) -> tuple[World, App]:
    """Return the end of a world, through the deaths of its holders."""
    world = World(seed)
    while True:
        app = fold(world.record)
        see(world, app)
        try:
            hold(app, world, world)
        except HolderDied:
            continue
        return world, app


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(0, 400, 50)], ids=str)
def test_every_random_app_ends_and_its_record_shows_the_same_app(seeds):
    for seed in seeds:
        world, app = played(seed)
        assert app.has_ended
        assert not world.running, seed
        decided = [event["e"] for event in world.record].count("ended")
        assert decided == 1, seed
        reader = fold(world.record)
        assert [reader.shown(each) for each in reader.replicas] == [app.shown(each) for each in app.replicas]
        assert (reader.state, reader.message, reader.code) == (app.state, app.message, app.code)


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(400, 800, 50)], ids=str)
def test_no_random_app_has_more_restarts_than_its_roles_allow(seeds):
    for seed in seeds:
        world, app = played(seed)
        restarts = [event for event in world.record if event["e"] == "restart"]
        for scope in ("app", "role", "replica"):
            for role in app.roles.values():
                numbers = [
                    (event["k"] if scope == "replica" else 0, event["n"])
                    for event in restarts
                    if event["scope"] == scope and (event["role"] == role.name or scope == "app")
                ]
                assert len(numbers) == len(set(numbers)), (seed, numbers)
                own = [n for k, n in numbers if scope != "app"]
                assert max(own, default=0) <= role.retries, seed


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(800, 1200, 50)], ids=str)
def test_the_end_that_a_record_implies_is_the_end_that_its_holder_recorded(seeds):
    for seed in seeds:
        world, app = played(seed)
        stop = next((i for i, e in enumerate(world.record) if e["e"] == "stopping" and e.get("state")), None)
        if stop is None:
            continue
        for cut in range(stop + 1, len(world.record)):
            end = implied_end(world.record[:cut])
            assert (end["state"], end["message"]) == (app.state, app.message), (seed, cut)
