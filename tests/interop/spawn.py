"""Workers that spawn processes with mp.spawn, which form a process group per worker."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CHILDREN = 2


def child(index, file, worker_rank):
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=index, world_size=CHILDREN)
    tensor = torch.tensor([10 * worker_rank + index])
    dist.all_reduce(tensor)
    assert tensor.item() == CHILDREN * 10 * worker_rank + sum(range(CHILDREN))
    dist.destroy_process_group()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mp.spawn(child, args=(os.path.abspath(f"rendezvous_of_{rank}"), rank), nprocs=CHILDREN)
    dist.barrier()
    dist.destroy_process_group()
    print("passed")


if __name__ == "__main__":
    main()
