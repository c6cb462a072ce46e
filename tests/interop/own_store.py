"""If rank 0 hosts the store, processes spawned by a worker can form a group at another address.

They do so like tutorials of mp.spawn; under an agent's store this waits for a server.
"""
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from free_port import FreePort

CHILDREN = 2


def add_up():
    tensor = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(tensor)
    return tensor.item()


def child(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=CHILDREN)
    assert add_up() == sum(range(1, CHILDREN + 1))
    dist.barrier()
    dist.destroy_process_group()


def main():
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("gloo")
    assert add_up() == sum(range(1, dist.get_world_size() + 1))
    if attempt == 0 and dist.get_rank() == 0:
        os._exit(1)  # and the store with it
    if dist.get_rank() == 1:
        with FreePort() as port:
            mp.spawn(child, args=(port.number,), nprocs=CHILDREN)
    assert attempt == 1
    dist.barrier()
    dist.destroy_process_group()
    print("passed")


if __name__ == "__main__":
    main()
