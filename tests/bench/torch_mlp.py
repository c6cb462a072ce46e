"""The trainer's default model, data and optimizer in PyTorch DDP over Gloo.

It is the other side of trainer_vs_torch. Everything that would slow PyTorch down without being
part of data-parallel training is left out: the data are float tensors in memory, a batch is one
indexing operation, gradients live in the buckets (gradient_as_bucket_view).
Rank 0 prints one JSON line an epoch: {"epoch": 1, "loss": ..., "samples_per_second": ...}.
"""

import argparse
import gzip
import json
import os
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


def read_idx(path, header_bytes):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=header_bytes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--data_dir", default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    pixels = read_idx(os.path.join(options.data_dir, "train-images-idx3-ubyte.gz"), 16)
    labels = read_idx(os.path.join(options.data_dir, "train-labels-idx1-ubyte.gz"), 8)
    pixels = torch.from_numpy(pixels.reshape(-1, 784).astype(numpy.float32))
    inputs = (pixels / 255 - 0.2860) / 0.3530
    labels = torch.from_numpy(labels.astype(numpy.int64))

    network = torch.nn.Sequential(
        torch.nn.Linear(784, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    model = DistributedDataParallel(network, gradient_as_bucket_view=True)
    loss_function = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(range(len(inputs)), shuffle=True, seed=0)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        order = torch.tensor(list(sampler))
        dist.barrier()
        start = time.perf_counter()
        loss_sum = torch.zeros(())
        for indices in order.split(options.batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_function(model(inputs[indices]), labels[indices])
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach() * len(indices)
        dist.barrier()
        seconds = time.perf_counter() - start
        if dist.get_rank() == 0:
            line = {
                "epoch": epoch + 1,
                "loss": loss_sum.item() / len(order),
                "samples_per_second": len(order) * dist.get_world_size() / seconds,
            }
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
