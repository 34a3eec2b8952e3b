"""Computes a sum of squares on the workers of a Dask cluster."""

import sys

from distributed import Client


def square(number: int) -> int:
    return number * number


address, workers = sys.argv[1:]
with Client(address, timeout=60) as client:
    client.wait_for_workers(int(workers))
    squares = client.map(square, range(100))
    print(f"{workers} workers: the sum of the squares is {client.submit(sum, squares).result()}")
    client.shutdown()  # or scheduler and workers, stopped at the same time, may wait for each other
