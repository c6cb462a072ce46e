"""A convolutional network learns Fashion-MNIST quickly with Adam, with equal results on all ranks.
"""
import gzip
import os

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FOLDER = "/usr/share/datasets/fashion-mnist"
TRAINING_SAMPLES, TEST_SAMPLES = 20000, 5000
EPOCHS = 3
ACCURACY = 0.80


def load(part, samples):
    def read(kind, header_bytes):
        with gzip.open(os.path.join(FOLDER, f"{part}-{kind}-ubyte.gz")) as file:
            return numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=header_bytes)

    pixels = read("images-idx3", 16)[:samples * 784].reshape(-1, 1, 28, 28)
    labels = read("labels-idx1", 8)[:samples]
    return TensorDataset(torch.tensor(pixels).float() / 128 - 1, torch.tensor(labels).long())


def seqnet():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 12, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(12 * 4 * 4, 120), torch.nn.ReLU(),
        torch.nn.Linear(120, 60), torch.nn.ReLU(),
        torch.nn.Linear(60, 10))


def accuracy(model, dataset):
    images, labels = dataset.tensors
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(seqnet())
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
training = load("train", TRAINING_SAMPLES)
sampler = DistributedSampler(training)
loader = DataLoader(training, batch_size=32, sampler=sampler)
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

mine = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
of_rank_0 = mine.clone()
dist.broadcast(of_rank_0, 0)
assert torch.equal(mine, of_rank_0)
reached = accuracy(model.module, load("t10k", TEST_SAMPLES))
print(f"accuracy {reached:.4f}")
assert reached > ACCURACY
dist.barrier()
dist.destroy_process_group()
print("passed")
