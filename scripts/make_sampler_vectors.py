#!/usr/bin/python3
"""Writes tests/unit/data/sampler_vectors.json: what PyTorch's DistributedSampler yields.

Run by hand when cases are added; needs Debian's python3-torch (or any PyTorch).
Short sequences are stored whole, long ones as their FNV-1a hash and first items.
"""
import itertools
import json
import pathlib

import torch
from torch.utils.data.distributed import DistributedSampler

WHOLE_UP_TO = 24


def fnv1a(items):
    """64-bit FNV-1a over the items as 8 little-endian bytes each."""
    value = 0xCBF29CE484222325
    for item in items:
        for byte in int(item).to_bytes(8, "little"):
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def describe(items):
    items = [int(item) for item in items]
    if len(items) <= WHOLE_UP_TO:
        return {"items": items}
    return {"count": len(items), "first": items[:8], "fnv1a": fnv1a(items)}


def permutation(n, seed):
    torch.manual_seed(seed)
    return {"n": n, "seed": seed, **describe(torch.randperm(n))}


def sampler(n, world_size, rank, seed, epoch, shuffle, drop_last):
    made = DistributedSampler(range(n), num_replicas=world_size, rank=rank, shuffle=shuffle,
                              seed=seed, drop_last=drop_last)
    made.set_epoch(epoch)
    return {"n": n, "world_size": world_size, "rank": rank, "seed": seed, "epoch": epoch,
            "shuffle": shuffle, "drop_last": drop_last, "size": len(made), **describe(made)}


def permutations():
    seeds = [0, 1, 42, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    for n, seed in itertools.product([0, 1, 2, 3, 10, 1000], seeds):
        yield permutation(n, seed)
    for n, seed in itertools.product([50001, 60000], [0, 7, 2**40 + 5]):
        yield permutation(n, seed)


def samplers():
    small = [(0, 1), (0, 3), (1, 1), (1, 2), (1, 5), (2, 5), (3, 4), (4, 4), (5, 4), (7, 3),
             (10, 4), (16, 4), (17, 8), (100, 7)]
    either = [True, False]
    for (n, world_size), shuffle, drop_last in itertools.product(small, either, either):
        for rank in sorted({0, world_size // 2, world_size - 1}):
            yield sampler(n, world_size, rank, 0, 0, shuffle, drop_last)
    for seed, epoch in [(0, 5), (5, 0), (1, 1), (2**32 - 1, 1), (2**40, 3), (2**63 - 1, 1),
                        (2**64 - 2, 1), (10, -3), (0, -1), (3, -2**40)]:
        for drop_last in [False, True]:
            yield sampler(23, 4, 1, seed, epoch, True, drop_last)
    for n, world_size, drop_last in itertools.product([60000, 50001], [1, 4, 7], [False, True]):
        yield sampler(n, world_size, world_size - 1, 1, 2, True, drop_last)


def main():
    path = pathlib.Path(__file__).parent.parent / "tests/unit/data/sampler_vectors.json"
    vectors = {"made_with": f"PyTorch {torch.__version__}"}
    lines = [json.dumps({k: v})[1:-1] for k, v in vectors.items()]
    for name, cases in [("permutations", permutations()), ("samplers", samplers())]:
        lines.append(f'"{name}": [\n  ' + ",\n  ".join(json.dumps(case) for case in cases) + "\n]")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")


if __name__ == "__main__":
    main()
