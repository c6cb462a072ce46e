"""DistributedSampler and DataLoader: all ranks together use each sample once per epoch, shuffled.
"""
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SAMPLES = 120


def main():
    dist.init_process_group("gloo")
    world_size = dist.get_world_size()
    dataset = TensorDataset(torch.arange(SAMPLES))
    sampler = DistributedSampler(dataset, shuffle=True, seed=3)
    orders = []
    for loader_processes in (0, 2):  # read by the worker itself, and by processes of its own
        loader = DataLoader(dataset, batch_size=7, sampler=sampler, num_workers=loader_processes)
        sampler.set_epoch(loader_processes)
        seen = torch.cat([batch for (batch,) in loader])
        parts = [torch.empty_like(seen) for _ in range(world_size)]
        dist.all_gather(parts, seen)
        assert all(len(part) == SAMPLES // world_size for part in parts)
        assert torch.cat(parts).sort().values.tolist() == list(range(SAMPLES))
        orders.append(torch.cat(parts).tolist())
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])
    dist.barrier()
    dist.destroy_process_group()
    print("passed")


if __name__ == "__main__":  # the loader's processes import this file where they are not forked
    main()
