"""Two ranks all-reduce twice; in between, rank 1 fails in each of two attempts."""
import os

import torch
import torch.distributed as dist

ATTEMPTS_THAT_FAIL = 2

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
for turn in (1, 2):
    ones = torch.ones(4)
    dist.all_reduce(ones)
    assert ones.tolist() == [2.0] * 4
    if turn == 1 and attempt < ATTEMPTS_THAT_FAIL and dist.get_rank() == 1:
        os._exit(3)
assert attempt == ATTEMPTS_THAT_FAIL
dist.barrier()
dist.destroy_process_group()
print("passed")
