"""Trains with FSDP2 and tensor parallelism, over the backend that BACKEND names.

Compares both with the training of one process, saves and loads a checkpoint, and prints results.
"""
import copy
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)

BACKEND = os.environ.get("BACKEND", "gloo")
if BACKEND == "ddprun":
    import ddprun.torch

warnings.simplefilter("ignore")
dist.init_process_group(BACKEND)
rank, world_size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world_size,))
torch.manual_seed(0)
alone = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
sharded, split = copy.deepcopy(alone), copy.deepcopy(alone)
for layer in (sharded[0], sharded[2], sharded):
    fully_shard(layer, mesh=mesh)
parallelize_module(split, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
inputs = torch.randn(8 * world_size, 16)
share = inputs.chunk(world_size)[rank]


def train(model, batch):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if step == 2 and os.environ.get("FAILS") == os.environ["RANK"]:
            raise SystemExit(3)


def whole(parameter):
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


train(alone, inputs)
train(sharded, share)
train(split, inputs)
for model in (sharded, split):
    for ours, theirs in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(whole(ours), theirs, atol=1e-5)
checkpoints.save({"model": sharded.state_dict()}, checkpoint_id="saved")
checkpoints.async_save({"model": sharded.state_dict()}, checkpoint_id="saved_later").result()
for name in ("saved", "saved_later"):
    state = {"model": fully_shard(copy.deepcopy(alone), mesh=mesh).state_dict()}
    for value in state["model"].values():
        value.zero_()
    checkpoints.load(state, checkpoint_id=name)
    for key, value in sharded.state_dict().items():
        assert torch.equal(whole(state["model"][key]), whole(value))
rows = torch.arange(4.0 * world_size).reshape(2 * world_size, 2)
rows = distribute_tensor(rows, mesh, [Shard(0)])
assert rows.full_tensor().sum() == sum(range(4 * world_size))
assert all_reduce(torch.ones(4), "sum", dist.group.WORLD).tolist() == [float(world_size)] * 4
if rank == 0:
    print(f"sum {sum(whole(parameter).sum() for parameter in alone.parameters()).item()!r}")
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
# PyTorch 2.15 may abort at the interpreter's exit, while a thread of Gloo frees a tensor.
os._exit(0)
