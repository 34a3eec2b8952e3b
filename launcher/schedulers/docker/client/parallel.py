"""Run the same work for several items at once, in a few threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

WORKERS = 4  # with more, the engine is the limit: measured for create and start


def run_parallel(work: Callable[[T], R], items: Iterable[T], workers: int = WORKERS) -> list[R]:
    """Run `work` for each item, at most `workers` at a time. Returns the results in the order of the items.

    Every item is tried. The first error, in the order of the items, is raised after all have ended.
    """
    todo = list(items)
    if len(todo) <= 1:
        return [work(item) for item in todo]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(workers, len(todo)), thread_name_prefix="docker") as pool:
        done = [pool.submit(work, item) for item in todo]
    return [one.result() for one in done]
