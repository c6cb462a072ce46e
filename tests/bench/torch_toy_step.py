"""The other side of libtorch_step_bench: the same model and steps in PyTorch DDP over Gloo.

Rank 0 prints a JSON line a round: {"local_ms": ..., "ddp_ms": ...}.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--views", action="store_true", help="gradient_as_bucket_view")
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    network = torch.nn.Sequential(
        torch.nn.Linear(10, options.width), torch.nn.ReLU(),
        torch.nn.Linear(options.width, options.width), torch.nn.ReLU(),
        torch.nn.Linear(options.width, 5))
    model = DistributedDataParallel(network, gradient_as_bucket_view=options.views)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    inputs, targets = torch.randn(options.batch, 10), torch.randn(options.batch, 5)
    loss_function = torch.nn.MSELoss()

    def step(synchronise):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if synchronise else model.no_sync():
            loss_function(model(inputs), targets).backward()
        optimizer.step()
        return 1e3 * (time.perf_counter() - start)

    for _ in range(2):  # buckets are rebuilt after the first
        step(True)
    for _ in range(options.rounds):
        figures = {}
        for name, synchronise in (("local_ms", False), ("ddp_ms", True)):
            dist.barrier()
            figures[name] = statistics.median(step(synchronise) for _ in range(options.steps))
        if dist.get_rank() == 0:
            print(json.dumps(figures), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
