"""Trains with torchft: a replica group that loses its worker recovers from the other one's model.

All groups train on each step's batch, so failures do not change the results. Prints losses.
"""
import os
from datetime import timedelta

import torch
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

group = os.environ["REPLICA_GROUP_ID"]
is_first_attempt = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
torch.manual_seed(0)
inputs = torch.randn(8, 2, 8, 8)  # a batch for each step and group
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def load(saved):
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


manager = Manager(ProcessGroupGloo(timeout=timedelta(seconds=20)), load, state, min_replica_size=2,
                  use_async_quorum=False, replica_id=f"group_{group}")
model = DistributedDataParallel(manager, model)
optimizer = Optimizer(manager, optimizer)
while manager.current_step() < len(inputs):
    optimizer.zero_grad()
    step = manager.current_step()
    batch = inputs[step, manager.participating_rank()]
    loss = torch.nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))
    if step == 3 and is_first_attempt and os.environ.get("FAILS") == group:
        raise SystemExit(3)
    loss.backward()
    optimizer.step()
    if manager.current_step() > step:
        print(f"step {step}: {loss.item()!r}")
manager.shutdown()
