"""A trainer with checkpoints loses a worker in each of five attempts, at different moments.

The sixth ends with the parameters of an undisturbed training, bit for bit.
"""
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from backend import BACKEND

EPOCHS, BATCHES, SHARE = 3, 8, 4  # batches of an epoch, samples of a rank in a batch
CHECKPOINT = "checkpoint.pt"
# The death in each attempt: the rank, its step (from the beginning of the training), and the
# position.
DEATHS = [(0, 0, "before the backward pass"), (1, 5, "after the backward pass"),
          (0, 9, "while saving"), (1, 9, "before the backward pass"), (0, 23, "after saving")]

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group(BACKEND)
rank, world_size = dist.get_rank(), dist.get_world_size()
samples = BATCHES * SHARE * world_size
dataset = TensorDataset(torch.randn(samples, 6, generator=torch.Generator().manual_seed(1)),
                        torch.randn(samples, 2, generator=torch.Generator().manual_seed(2)))


class Training:
    """Model, optimizer, and the number of steps made."""

    def __init__(self):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(),
                                      torch.nn.Linear(16, 2))
        self.model = DistributedDataParallel(network)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.steps = 0

    def save(self):
        if rank == 0:
            torch.save({"model": self.model.module.state_dict(), "steps": self.steps,
                        "optimizer": self.optimizer.state_dict()}, CHECKPOINT + ".new")
            self.reach("while saving")
            os.replace(CHECKPOINT + ".new", CHECKPOINT)
        dist.barrier()

    def load(self):
        if os.path.exists(CHECKPOINT):
            saved = torch.load(CHECKPOINT)
            self.model.module.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.steps = saved["steps"]

    def reach(self, place):
        """Called at the positions of DEATHS."""

    def run(self):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=SHARE, sampler=sampler)
        for epoch in range(EPOCHS):
            sampler.set_epoch(epoch)
            for step, (inputs, targets) in enumerate(loader, start=epoch * BATCHES):
                if step >= self.steps:
                    self.make_step(inputs, targets)

    def make_step(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        self.reach("before the backward pass")
        loss.backward()
        self.reach("after the backward pass")
        self.optimizer.step()
        self.steps += 1


class DisturbedTraining(Training):
    def reach(self, place):
        if attempt < len(DEATHS) and DEATHS[attempt] == (rank, self.steps, place):
            os.kill(os.getpid(), signal.SIGKILL)

    def make_step(self, inputs, targets):
        super().make_step(inputs, targets)
        self.save()
        self.reach("after saving")


disturbed = DisturbedTraining()
disturbed.load()
print(f"attempt {attempt} begins after step {disturbed.steps}")
disturbed.run()
assert attempt == len(DEATHS)

undisturbed = Training()
undisturbed.run()
assert disturbed.steps == undisturbed.steps == EPOCHS * BATCHES
for ours, theirs in zip(disturbed.model.parameters(), undisturbed.model.parameters()):
    assert torch.equal(ours, theirs)
dist.barrier()
dist.destroy_process_group()
print("passed")
