"""Shared memory of a killed worker is given back before the next attempt begins."""
import os
import signal
from multiprocessing.shared_memory import SharedMemory

import torch
import torch.distributed as dist

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
# Named after the run's store, which is no other run's. Fails if the name is taken.
memory = SharedMemory(f"interop_{os.environ['MASTER_PORT']}_{rank}", create=True, size=4096)
tensor = torch.frombuffer(memory.buf, dtype=torch.float32)
tensor.fill_(rank)
dist.barrier()
if attempt == 0 and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(tensor)
assert attempt == 1 and tensor[0] == sum(range(dist.get_world_size()))
del tensor  # which holds the memory open
memory.close()
memory.unlink()
dist.barrier()
dist.destroy_process_group()
print("passed")
