"""PyTorch's detection of its launcher, and a process group with an init method.

Usage: launched.py environment|address (of the store)
"""
import os
import sys

import torch
import torch.distributed as dist

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STORE = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"

assert dist.is_torchelastic_launched()
if sys.argv[1] == "environment":
    dist.init_process_group("gloo", init_method="env://")
else:
    dist.init_process_group("gloo", init_method=STORE, rank=RANK, world_size=WORLD_SIZE)
assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD_SIZE)
tensor = torch.tensor([RANK])
dist.all_reduce(tensor)
assert tensor.item() == sum(range(WORLD_SIZE))
dist.barrier()
dist.destroy_process_group()
print("passed")
