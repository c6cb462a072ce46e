"""DDP with small buckets and a parameter of 400 MB: two steps equal those of the joined batch."""
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 2
SHARE = 4

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(10, 10000), torch.nn.ReLU(),
                            torch.nn.Linear(10000, 10000), torch.nn.ReLU(),
                            torch.nn.Linear(10000, 5))
inputs = torch.randn(STEPS, world_size, SHARE, 10, generator=torch.Generator().manual_seed(1))
targets = torch.randn(STEPS, world_size, SHARE, 5, generator=torch.Generator().manual_seed(2))
distributed = DistributedDataParallel(model, bucket_cap_mb=1, gradient_as_bucket_view=True)
alone = copy.deepcopy(model)  # after DDP has made the parameters of all ranks the same


def train(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step_inputs, step_targets in zip(inputs, targets):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(step_inputs), step_targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


mean_losses = torch.stack(train(distributed, inputs[:, rank], targets[:, rank]))
dist.all_reduce(mean_losses)
# One rank is enough, and the others save the memory.
if rank == 0:
    losses = torch.stack(train(alone, inputs.flatten(1, 2), targets.flatten(1, 2)))
    assert torch.allclose(mean_losses / world_size, losses, rtol=1e-4)
    with torch.no_grad():
        for ours, theirs in zip(model.parameters(), alone.parameters()):
            assert ours.sub_(theirs).abs_().max() < 1e-6  # in place: allclose takes gigabytes
dist.barrier()
dist.destroy_process_group()
print("passed")
