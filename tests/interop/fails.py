"""Rank 1 fails as the first argument says; the others wait for it. Errors are recorded."""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

BYTES_AT_ONCE = 16 << 20


def use_up_memory():
    hoard = []
    while True:
        hoard.append(torch.ones(BYTES_AT_ONCE, dtype=torch.uint8))


@record
def main(how):
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        if how == "raise":
            raise KeyError("boom")
        if how == "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "memory":
            use_up_memory()
    dist.barrier()


main(sys.argv[1])
