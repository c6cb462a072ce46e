"""Leftovers of a run. Orphans become children of the test, which finds and ends them."""
import ctypes
import os
import pathlib
import signal
import time

LOOK_AGAIN = 0.02  # seconds
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes orphans of a run children of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def living_children():
    """Returns ids and command lines of this process' running children."""
    children = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # Read before the state: a process that ends between the two reads has no command line.
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid() and state not in "ZX":
            children[int(folder.name)] = command.strip()
    return children


def end_children(time_limit=0.0):
    """Kills all children that have not ended in time, and their children; returns their command
    lines."""
    deadline = time.monotonic() + time_limit
    left = []
    while children := living_children():
        # A process adopted during the last search has the same time as the others.
        if time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN)
            continue
        for pid, command in children.items():
            left.append(f"process {pid}: {command}")
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return left
