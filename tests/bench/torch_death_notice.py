r"""Time from the death of a rank until all_reduce of the backend ddprun fails on the others.

    PYTHONPATH=build/release/python build/release/bin/ddprun --nproc_per_node=2 \
        tests/bench/torch_death_notice.py

Each rank but the last prints its time and the error.
"""

import os
import signal
import time

import torch
import torch.distributed as dist

import ddprun.torch

dist.init_process_group("ddprun")
rank, last = dist.get_rank(), dist.get_world_size() - 1
store = dist.distributed_c10d._get_default_store()
tensor = torch.ones(1000)
for _ in range(50):
    dist.all_reduce(tensor)
if rank == last:
    store.set("death", repr(time.time() + 0.5))
    while time.time() < float(store.get("death")):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
death = float(store.get("death"))
try:
    dist.all_reduce(tensor)
except RuntimeError as error:
    print(f"{1e3 * (time.time() - death):.2f} ms: {error}", flush=True)
