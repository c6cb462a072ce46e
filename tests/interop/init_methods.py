"""Groups by env:// and tcp://, one per attempt, with the store in the agent or rank 0.

Argument: "agent" or "rank_0". Attempts except for the last end with the death of a rank.
"""
import os
import socket
import sys

import torch
import torch.distributed as dist

import store_clients

address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
is_last = attempt == int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
# Without libuv PyTorch's clients cannot use the agent's store.
lacks_libuv = os.environ.get("USE_LIBUV") == "0"
uses_agent_store = sys.argv[1] == "agent" and not lacks_libuv
assert lacks_libuv == bool(store_clients.OPTIONS)
assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == str(uses_agent_store)


def form_group(url):
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world_size)


# PyTorch 2.6 hangs if a thread of Gloo drops the last reference to a tensor while a group is
# destroyed: that holds Python's lock, and waits for the thread.
tensors = []


def add_up():
    ones = torch.ones(4)
    tensors.append(ones)
    dist.all_reduce(ones)
    assert ones.tolist() == [world_size] * 4


def other_port():
    """A port that rank 0 reserves for its store, sent over a group that is then destroyed."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("", 0))
    form_group("env://")
    add_up()
    chosen = torch.tensor([kept.getsockname()[1]])
    tensors.append(chosen)
    dist.broadcast(chosen, 0)
    dist.barrier()
    dist.destroy_process_group()
    return chosen.item(), kept


if attempt == 2:  # up to 2026 PyTorch takes a port of the program's own for the agent's
    other, reservation = other_port()
    form_group(f"tcp://{address}:{other}")
else:
    form_group(("env://", f"tcp://{address}:{port}")[attempt])
add_up()
if not is_last and rank == 1:
    os._exit(3)
dist.barrier()
if not is_last:
    dist.barrier()  # whose end rank 1 prevents
dist.destroy_process_group()
print("passed")
