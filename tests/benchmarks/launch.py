"""P3: a local app of N replicas of `true`, from its schedule until the launcher knows that all have ended.

P3b: whole processes that follow the logs of such an app, against `apply --wait`, which does not.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.peers import peer
from tests.benchmarks.world import launcher, took, world

TARGETS = {1: "ours <= 50 ms", 100: "<= 1.5", 1000: "<= 1.5"}
FOLLOWED = (100, 1000, 2000)


def rows(settings: Settings) -> Iterator[Row]:
    for replicas, target in TARGETS.items():
        with world() as folder:
            count = settings.size(replicas)
            row = compare(
                f"{count} replicas of `true`",
                floor=lambda count=count, folder=folder: _popen_loop(folder, count),
                ours=lambda count=count: _ours(count),
                peers=_parallel(settings, count) | _torchx(settings, count),
                target=target,
                rounds=_rounds(settings, replicas),
            )
        yield row
    for replicas in FOLLOWED if settings.scale >= 0.1 else FOLLOWED[:1]:  # whole processes: slow to try out
        with world():
            count = settings.size(replicas)
            yield from _following(count, _rounds(settings, replicas))


def _following(replicas: int, rounds: int) -> Iterator[Row]:
    """Measure `run` and `apply --logs` against `apply --wait` of the same job."""
    with open("many.launcher.yaml", "w") as file:
        file.write(
            f"version: 1\nname: many\nroles: {{main: {{entrypoint: 'true', num_replicas: {replicas}}}}}\n"
        )
    apply = ["apply", "many.launcher.yaml", "--yes", "--rerun", "many", "--wait"]
    for argv in (["run", "many.launcher.yaml"], [*apply, "--logs"]):
        yield compare(
            f"launcher {argv[0]}{' --logs' if '--logs' in argv else ''} of {replicas} replicas of `true`",
            floor=lambda: took(launcher(*apply)),
            ours=lambda argv=argv: took(launcher(*argv)),
            target="<= 1.5",
            rounds=rounds,
            note="the floor is `apply --wait`",
        )


def _rounds(settings: Settings, replicas: int) -> int:
    return settings.rounds if replicas < 1000 else min(settings.rounds, 5)


def _popen_loop(folder: Path, replicas: int) -> float:
    """Run the loop that a user would write by hand: a session and two log files each, then wait for all."""
    logs = folder / "floor"
    logs.mkdir(exist_ok=True)
    started = time.perf_counter()
    running = []
    for k in range(replicas):
        with open(logs / f"{k}.out", "wb") as out, open(logs / f"{k}.err", "wb") as err:
            running.append(
                subprocess.Popen(
                    ["true"], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            )
    for process in running:
        if process.wait() != 0:
            raise SystemExit("`true` failed")
    return time.perf_counter() - started


def _ours(replicas: int) -> float:
    from launcher.runner import get_runner
    from launcher.specs import AppDef, AppState, Role

    app = AppDef(name="bench", roles=[Role(name="main", image="", entrypoint="true", num_replicas=replicas)])
    with get_runner() as runner:
        runner.scheduler_run_opts("local_cwd")  # the first use imports the scheduler: not what is measured
        started = time.perf_counter()
        handle = runner.run(app, "local_cwd", {})
        status = runner.wait(handle)
        elapsed = time.perf_counter() - started
    if status is None or status.state is not AppState.SUCCEEDED:
        raise SystemExit(f"{handle} ended as {status}")
    return elapsed


def _parallel(settings: Settings, replicas: int) -> dict:
    return dict(peer(settings, ["parallel", "-j0", "-N0", "true", ":::", *map(str, range(replicas))]))


def _torchx(settings: Settings, replicas: int) -> dict:
    """The other Python launcher, as a whole process. 1,000 replicas take it a minute: left out."""
    if replicas > 100:
        return {}
    argv = ["torchx", "run", "-s", "local_cwd", "--wait", "utils.sh", "--num_replicas", str(replicas), "true"]
    return dict(peer(settings, argv))
