"""A job that hangs: rank 0 waits in a collective for rank 1, which does not join it.

"deaf" as an argument: SIGTERM does not end it. "locked": rank 1 keeps its interpreter locked.
"""
import ctypes
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist


def wait_in_vain():
    dist.all_reduce(torch.ones(1))


def never_come():
    if "locked" in sys.argv:
        ctypes.PyDLL(None).pause()
    threading.Event().wait()


if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
before = len(os.listdir("/proc/self/task"))
dist.init_process_group("gloo")
dist.barrier()
print("threads", before, len(os.listdir("/proc/self/task")))
print("up", flush=True)
if dist.get_rank() == 0:
    wait_in_vain()
else:
    never_come()
