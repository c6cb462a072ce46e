"""A program for the older torch.distributed.launch, which passed the local rank as an argument.

Usage: local_rank.py [--local_rank N] argument|environment (expected source of the rank)
"""
import argparse
import os

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int)
parser.add_argument("expected", choices=["argument", "environment"])
options = parser.parse_args()
came_from = "environment" if options.local_rank is None else "argument"
assert came_from == options.expected
in_environment = int(os.environ["LOCAL_RANK"])
local_rank = in_environment if options.local_rank is None else options.local_rank
assert local_rank == in_environment

dist.init_process_group("gloo", init_method="env://")
assert local_rank == dist.get_rank()
dist.barrier()
dist.destroy_process_group()
print("passed")
