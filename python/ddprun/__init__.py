"""Calls from a worker to the ddprun that started it, and functions that start ddprun.

heartbeat(): reports that the worker makes progress; does nothing without ddprun.
launch(): calls a function in worker processes.
run(): runs a command line of ddprun.
LaunchError: the run of launch() or run() has failed.
"""

import ctypes
import mmap
import os
import struct
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .launching import LaunchError, launch, run

__all__ = ["LaunchError", "heartbeat", "launch", "run"]

# As in rendezvous/control/control_page.cpp and flight_log.hpp.
_MAGIC = 0x6464_7072_756E_0004
_HEADER_BYTES = 8192
_HEARTBEATS_OFFSET = 144


_counter: "Optional[ctypes.c_uint64]" = None


def _find_counter() -> ctypes.c_uint64:
    """Return the worker's counter in the memory shared with ddprun, or one of this process."""
    try:
        fd = int(os.environ["DDPRUN_CONTROL_FD"])
        slot = int(os.environ.get("DDPRUN_CONTROL_SLOT", os.environ.get("LOCAL_RANK", "")))
        size = os.fstat(fd).st_size
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as page:
            magic, workers = struct.unpack_from("=Qi", page)
        if magic != _MAGIC or not 0 <= slot < workers:
            return ctypes.c_uint64()
        place = _HEADER_BYTES + slot * ((size - _HEADER_BYTES) // workers) + _HEARTBEATS_OFFSET
        begin = place - place % mmap.ALLOCATIONGRANULARITY
        own = mmap.mmap(fd, min(mmap.ALLOCATIONGRANULARITY, size - begin), offset=begin)
        return ctypes.c_uint64.from_buffer(own, place - begin)
    except (KeyError, ValueError, OverflowError, OSError, struct.error):
        return ctypes.c_uint64()


def __getattr__(name: str) -> Any:
    # Workers do not need the modules that this imports.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import launching

    return getattr(launching, name)


def heartbeat() -> None:
    """Report that this worker makes progress. Call it once in each training step, on every rank.

    From the first call on, ddprun regards the node's workers as hung when none of them has called
    it for --hang_timeout. The call takes less than a microsecond and never blocks or raises.
    """
    global _counter
    if _counter is None:  # not at the import, which may be the one of --preload
        _counter = _find_counter()
    _counter.value += 1
