"""For tests/bench/store_vs_torch: PyTorch's store as a server, and its client as the load.

  torch_store.py server                              prints its port and serves until its input ends
  torch_store.py clients COUNT ADDS ROUNDS PORT...   prints a line of rates for each round
"""
import datetime
import os
import struct
import sys
import time

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
import torch.distributed as dist  # noqa: E402

TIMEOUT = datetime.timedelta(seconds=60)
SPAN = struct.Struct("dd")


def serve():
    store = dist.TCPStore("127.0.0.1", 0, None, True, TIMEOUT, wait_for_workers=False)
    print(store.port, flush=True)
    sys.stdin.read()


def be_client(commands, spans, adds, ports):
    """For each byte read, the index of a server: makes the given number of adds, and writes begin
    and end."""
    stores = [dist.TCPStore("127.0.0.1", port, None, False, TIMEOUT, wait_for_workers=False)
              for port in ports]
    while command := os.read(commands, 1):
        store = stores[command[0]]
        begin = time.monotonic()
        for _ in range(adds):
            store.add("n", 1)
        os.write(spans, SPAN.pack(begin, time.monotonic()))
    os._exit(0)


def start_client(adds, ports, others):
    commands_out, commands_in = os.pipe()
    spans_out, spans_in = os.pipe()
    if os.fork() == 0:
        # A later client that inherits this end would keep the earlier one from reading its end of
        # input.
        for descriptor in (commands_in, spans_out, *(end for pair in others for end in pair)):
            os.close(descriptor)
        be_client(commands_out, spans_in, adds, ports)
    os.close(commands_out)
    os.close(spans_in)
    return commands_in, spans_out


def drive(count, adds, rounds, ports):
    clients = []
    for _ in range(count):
        clients.append(start_client(adds, ports, clients))
    for number in range(rounds + 1):  # the first one warms up
        rates = []
        for server in range(len(ports)):
            for commands, _ in clients:
                os.write(commands, bytes([server]))
            spans = [SPAN.unpack(os.read(answers, SPAN.size)) for _, answers in clients]
            wall = max(end for _, end in spans) - min(begin for begin, _ in spans)
            rates.append(count * adds / wall)
        if number > 0:
            print(*rates, flush=True)


if sys.argv[1] == "server":
    serve()
else:
    drive(*map(int, sys.argv[2:5]), list(map(int, sys.argv[5:])))
