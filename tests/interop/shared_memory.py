"""Shared memory of a killed worker is freed before the next attempt begins."""
import os
import signal
from multiprocessing.shared_memory import SharedMemory

import torch
import torch.distributed as dist

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
# Named after the run's store, which is unique. Fails if the name exists.
memory = SharedMemory(f"interop_{os.environ['MASTER_PORT']}_{rank}", create=True, size=4096)
memory.buf[0] = rank
# PyTorch 2.6 hangs in destroy_process_group() if a thread of Gloo drops the last reference to a
# tensor meanwhile: this one lives until the end, so it cannot be the shared memory itself.
tensor = torch.full((1024,), float(memory.buf[0]))
dist.barrier()
if attempt == 0 and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(tensor)
assert attempt == 1 and tensor[0] == sum(range(dist.get_world_size()))
memory.close()
memory.unlink()
dist.barrier()
dist.destroy_process_group()
print("passed")
