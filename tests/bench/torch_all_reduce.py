r"""Duration of all_reduce with CPU tensors in PyTorch: the backend ddprun beside Gloo.

    PYTHONPATH=build/release/python build/release/bin/ddprun --nproc_per_node=2 \
        tests/bench/torch_all_reduce.py

Measures the backends in turn, and prints the medians of the rounds on rank 0.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist

import ddprun.torch

SIZES = [4, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20]
CALL_BYTES = 32 << 20  # in a round, with 3 to 1000 calls


def duration(group, tensor, calls):
    """Microseconds of a call."""
    dist.all_reduce(tensor, group=group)
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    return 1e6 * (time.perf_counter() - start) / calls


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("ddprun")
    groups = {"ddprun": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    if dist.get_rank() == 0:
        print(f"PyTorch {torch.__version__}, {dist.get_world_size()} ranks")
        print(f"{'bytes':>10} {'ddprun us':>10} {'gloo us':>10} {'ratio':>6}")
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        calls = max(3, min(1000, CALL_BYTES // size))
        times = {name: [] for name in groups}
        for _ in range(options.rounds):
            for name, group in groups.items():
                times[name].append(duration(group, tensor, calls))
        own, gloo = (statistics.median(times[name]) for name in ("ddprun", "gloo"))
        if dist.get_rank() == 0:
            print(f"{size:>10} {own:>10.1f} {gloo:>10.1f} {gloo / own:>6.1f}", flush=True)
    dist.barrier()


main()
