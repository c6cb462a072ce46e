"""Trains with DDP until rank 1 raises an error in the middle of a backward pass."""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from backend import BACKEND


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, value, fails):
        context.fails = fails
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        if context.fails:
            raise ValueError("bad batch")
        return gradient, None


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 200000), torch.nn.Linear(200000, 1)

    def forward(self, inputs, fails):
        return self.last(Fails.apply(self.first(inputs), fails))


dist.init_process_group(BACKEND)
model = DistributedDataParallel(Net(), bucket_cap_mb=0.1)
for step in range(5):
    model(torch.ones(2, 8), step == 3 and dist.get_rank() == 1).sum().backward()
