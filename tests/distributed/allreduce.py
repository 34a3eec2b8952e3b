"""Each replica contributes its rank + 1; all of them must see the sum. Talks over gloo, on CPUs."""

import os
import sys

import torch
import torch.distributed as dist


def main() -> int:
    rank, world, rank0_env = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    host = os.environ[rank0_env]
    dist.init_process_group("gloo", init_method=f"tcp://{host}:29500", rank=rank, world_size=world)
    value = torch.full((1000,), float(rank + 1))
    dist.all_reduce(value)
    expected = world * (world + 1) / 2
    print(f"rank {rank} of {world}, rank 0 at {host}: sum {value[0]:g}, expected {expected:g}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if bool((value == expected).all()) else 1


if __name__ == "__main__":
    sys.exit(main())
