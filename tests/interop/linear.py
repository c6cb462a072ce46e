"""A linear model trained by data parallelism equals the same model trained on the joined batch."""
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DataParallel, DistributedDataParallel

from backend import BACKEND

STEPS = 20
SHARE = 8  # samples of a rank in each step

dist.init_process_group(BACKEND)
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
inputs = torch.randn(STEPS, world_size, SHARE, 10)
targets = torch.randn(STEPS, world_size, SHARE, 5)
alone = torch.nn.Linear(10, 5)


def train(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step_inputs, step_targets in zip(inputs, targets):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(step_inputs), step_targets).backward()
        optimizer.step()


def same_parameters(one, other):
    # Only the order of the sums differs.
    return all(torch.allclose(a, b, rtol=1e-5, atol=1e-6)
               for a, b in zip(one.parameters(), other.parameters()))


start = copy.deepcopy(alone)
data_parallel = DataParallel(copy.deepcopy(alone))
own = copy.deepcopy(alone)
if rank != 0:
    torch.nn.init.zeros_(own.weight)  # DDP begins with the parameters of rank 0, whatever it gets
distributed = DistributedDataParallel(own)

train(alone, inputs.flatten(1, 2), targets.flatten(1, 2))
train(data_parallel, inputs.flatten(1, 2), targets.flatten(1, 2))
train(distributed, inputs[:, rank], targets[:, rank])

assert not same_parameters(alone, start)
assert same_parameters(alone, data_parallel)
assert same_parameters(alone, distributed)
dist.barrier()
dist.destroy_process_group()
print("passed")
