"""Workers' own stores at ports other than the agent's, and process groups over them."""
import datetime
import os
import time

import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(seconds=60)
# Value that ddprun sets for a PyTorch without libuv.
HAS_LIBUV = os.environ.get("USE_LIBUV") != "0"
OPTIONS = {} if HAS_LIBUV else {"use_libuv": False}

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()

# The kernel chooses the port; the others get it over the existing group.
own = [dist.TCPStore("127.0.0.1", 0, world_size, True, TIMEOUT, wait_for_workers=False, **OPTIONS)
       if rank == 0 else None]
port = [own[0].port if rank == 0 else None]
dist.broadcast_object_list(port)
store = own[0] or dist.TCPStore("127.0.0.1", port[0], world_size, False, TIMEOUT, **OPTIONS)
store.set(f"from {rank}", f"rank {rank}")
for other in range(world_size):
    assert store.get(f"from {other}") == f"rank {other}".encode()
assert store.add("counter", 1) <= world_size
dist.barrier()
assert store.add("counter", 0) == world_size

# A library's group beside the program's; then the program continues over the private store.
dist.destroy_process_group()
for turn in range(2):
    dist.init_process_group("gloo", store=dist.PrefixStore(f"turn {turn}", store), rank=rank,
                            world_size=world_size)
    tensor = torch.tensor([rank + turn])
    dist.all_reduce(tensor)
    assert tensor.item() == sum(range(world_size)) + world_size * turn
    dist.barrier()
    dist.destroy_process_group()

# The agent's store exists all the time; without libuv it is rank 0's, which ended with the group.
if HAS_LIBUV:
    agents = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size,
                           False, TIMEOUT)
    agents.set(f"end of {rank}", "")
    agents.wait([f"end of {other}" for other in range(world_size)])
store.add("ended", 1)
if rank == 0:  # whose store goes with it
    while store.add("ended", 0) < world_size:
        time.sleep(0.01)
print("passed")
