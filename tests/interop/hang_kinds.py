"""A job in which rank 1 calls in each attempt the function that the next argument names, and hangs,
while rank 0 waits for it in a collective. The attempt after the last argument succeeds.
"""
import ctypes
import os
import sys
import threading

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


def read_fifo():
    path = f"fifo-{os.getpid()}"
    os.mkfifo(path)
    with open(path, encoding="utf-8") as file:
        return file.read()


class BlockedDataset(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return read_fifo()


def compute_forever():
    while True:
        pass


def compute_until_released():
    while not os.path.exists("released"):
        pass


def wait_for_lock():
    threading.Event().wait()


def hold_interpreter():
    ctypes.PyDLL(None).pause()


def load_blocked_data():
    next(iter(DataLoader(BlockedDataset(), num_workers=1)))


def receive():
    dist.recv(torch.ones(1), src=0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    dist.barrier()
    functions = sys.argv[1 + int(os.environ["TORCHELASTIC_RESTART_COUNT"]):]
    if dist.get_rank() == 1 and functions:
        globals()[functions[0]]()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
