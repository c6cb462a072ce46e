"""A trainer with checkpoints continues with any number of ranks; two_nodes.py changes the number.

The argument is the file of the checkpoint. With two ranks, rank 1 ends itself by SIGKILL before the
first restart, and after it the training is endless: only a single rank reaches the end. It asserts
that its parameters are those of one process that repeats the steps on the joined batches.
"""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SHARE = 8  # samples of a rank in each step
STEPS_BEFORE_DEATH = 3
STEPS_ALONE = 5

checkpoint = sys.argv[1]
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()


class Training:
    """`history` has the number of ranks of each step made."""

    def __init__(self):
        torch.manual_seed(0)
        self.network = torch.nn.Linear(6, 2)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)
        self.history = []

    def step(self, model, ranks, samples):
        random = torch.Generator().manual_seed(len(self.history))
        inputs = torch.randn(ranks * SHARE, 6, generator=random)[samples]
        targets = torch.randn(ranks * SHARE, 2, generator=random)[samples]
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        self.optimizer.step()
        self.history.append(ranks)

    def load(self):
        if os.path.exists(checkpoint):
            saved = torch.load(checkpoint)
            self.network.load_state_dict(saved["network"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.history = saved["history"]

    def save(self):
        if rank == 0:
            torch.save({"network": self.network.state_dict(), "history": self.history,
                        "optimizer": self.optimizer.state_dict()}, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()


training = Training()
training.load()
first_step = len(training.history)
model = DistributedDataParallel(training.network)
while world_size == 2 or len(training.history) < first_step + STEPS_ALONE:
    training.step(model, world_size, slice(rank * SHARE, (rank + 1) * SHARE))
    training.save()
    if len(training.history) == first_step + STEPS_BEFORE_DEATH:
        print(f"restart {restarts}: {world_size} ranks train", flush=True)
        if world_size == 2 and rank == 1 and restarts == 0:
            os.kill(os.getpid(), signal.SIGKILL)

steps_together = training.history.count(2)
assert restarts == 1
assert steps_together >= 2 * STEPS_BEFORE_DEATH
assert training.history == [2] * steps_together + [1] * STEPS_ALONE
repeated = Training()
for ranks in training.history:
    repeated.step(repeated.network, ranks, slice(None))
for ours, theirs in zip(training.network.parameters(), repeated.network.parameters()):
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)  # only the order of the sums differs
dist.destroy_process_group()
print("passed")
