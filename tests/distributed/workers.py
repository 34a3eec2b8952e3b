"""One script for `dist.ddp`: every worker adds its rank + 1, and all must see the sum. Over gloo, on CPUs.

    workers.py [FAILING_RANK]

A worker of that rank raises after the sum; `record` writes down what it raised.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    value = torch.full((1000,), float(rank + 1))
    dist.all_reduce(value)
    expected = world * (world + 1) / 2
    node = os.environ["GROUP_RANK"]
    print(f"rank {rank} of {world} on node {node}: sum {value[0]:g}, expected {expected:g}", flush=True)
    assert bool((value == expected).all())
    if sys.argv[1:] == [str(rank)]:
        raise RuntimeError(f"the loss of rank {rank} is not a number")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
