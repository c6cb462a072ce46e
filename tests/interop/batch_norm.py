"""All ranks have rank 0's BatchNorm buffers, in each step and at the start of training."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from backend import BACKEND

dist.init_process_group(BACKEND)
rank = dist.get_rank()
norm = torch.nn.BatchNorm1d(4)
norm.running_mean.fill_(float(rank))
model = DistributedDataParallel(torch.nn.Sequential(norm, torch.nn.Linear(4, 2)))
assert norm.running_mean.tolist() == [0.0] * 4

expected_mean = torch.zeros(4)
for step in range(3):
    # Rank r computes the mean 10 r + step: the next step overwrites a rank's own value.
    batch = torch.full((8, 4), 10.0 * rank + step)
    model(batch).sum().backward()
    expected_mean = 0.9 * expected_mean + 0.1 * step
dist.barrier()
model.eval()
with torch.no_grad():
    model(torch.zeros(1, 4))
assert torch.allclose(norm.running_mean, expected_mean), (rank, norm.running_mean)
assert norm.num_batches_tracked == 3
dist.barrier()
dist.destroy_process_group()
print("passed")
