"""The other side of ddp_step_bench: the same model and steps in PyTorch DDP.

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

SIZES = [784, 2048, 2048, 256, 10]


def make_network():
    layers = []
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    layers[-1] = torch.nn.LogSoftmax(dim=1)
    return torch.nn.Sequential(*layers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--views", action="store_true", help="gradient_as_bucket_view")
    parser.add_argument("--backend", default="gloo")
    options = parser.parse_args()

    torch.set_num_threads(1)
    if options.backend == "ddprun":
        import ddprun.torch
    dist.init_process_group(options.backend)
    torch.manual_seed(dist.get_rank())
    inputs = torch.rand(options.batch, SIZES[0])
    labels = torch.randint(SIZES[-1], (options.batch,))
    model = DistributedDataParallel(make_network(), gradient_as_bucket_view=options.views)
    loss_function = torch.nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(synchronise):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=not options.views)
        with contextlib.nullcontext() if synchronise else model.no_sync():
            loss_function(model(inputs), labels).backward()
        optimizer.step()
        return 1e3 * (time.perf_counter() - start)

    for _ in range(3):
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
