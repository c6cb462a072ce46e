"""ddprun's DDP in a LibTorch program gives the gradients of PyTorch's DDP.

    libtorch.py PROGRAM    that prints them; see tests/support/libtorch_gradients.cpp

Every worker starts the program as itself, and then takes the same steps with PyTorch's DDP.
"""
import json
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# Both compute in float32, and sum the ranks' gradients with one rounding or two.
TOLERANCE = 1e-6

WORKER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
dist.init_process_group("gloo")
done = subprocess.run(sys.argv[1:], check=True, stdout=subprocess.PIPE,
                      env={name: os.environ[name] for name in (*WORKER, "OMP_NUM_THREADS")})
ours = json.loads(done.stdout)


def tensor(told, dtype=torch.float32):
    return torch.tensor(told["values"], dtype=torch.float64).reshape(told["shape"]).to(dtype)


def check(what, theirs, told):
    """Compares relative to each tensor's largest value; the gradient of a bias before a norm is
    zero except for rounding, and is compared with the largest value of all."""
    told = {name: tensor(one, torch.float64) for name, one in told.items()}
    largest = {name: one.abs().max() for name, one in told.items()}
    for name, value in theirs:
        difference = (value.double() - told[name]).abs().max()
        limit = TOLERANCE * (max(largest.values()) if name == "0.bias" else largest[name])
        assert difference <= limit, f"{what} {name} differs by {difference}, limit {limit}"


network = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(),
                              torch.nn.Linear(16, 3))
network.load_state_dict({name: tensor(told, network.state_dict()[name].dtype)
                         for name, told in ours["first"].items()})
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
for number, step in enumerate(ours["steps"]):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(tensor(step["input"])), tensor(step["target"])).backward()
    gradients = ((name, parameter.grad) for name, parameter in network.named_parameters())
    check(f"step {number}: the gradient of", gradients, step["gradients"])
    optimizer.step()
    check(f"step {number}:", network.state_dict().items(), step["after"])
if dist.get_rank() == 0:
    print("passed")
dist.barrier()
