"""A worker of PyTorch: both ranks add up twice, and in between rank 1 dies in the first attempt."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
for turn in (1, 2):
    ones = torch.ones(4)
    dist.all_reduce(ones)
    print(f"attempt {attempt}, turn {turn}: {int(ones.sum())}", flush=True)
    if attempt == "0" and dist.get_rank() == 1:
        os._exit(3)
