"""Answers ddprun's requests for the state of a forked worker that takes part in a process group of
PyTorch. Precedes preload.py in the file of the interpreter.

A thread listens on a socket in the worker's own folder, and sends its answer to each connection:
lines of fields separated by tabs about the last calls of the process groups, and after the line
"stacks" the Python frames of all threads.
"""

import os
import sys

INSPECTION_SOCKET = "python"
SEND_LIMIT_SECONDS = 1
GROUPS_MAX, FLIGHTS_MAX, MEMBERS_MAX = 16, 256, 256  # as in flight_recorder.hpp
THREADS_MAX, FRAMES_MAX = 256, 256
TYPE_BYTES = {"Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}
# Collectives whose tensors have the same sizes on all ranks.
EQUAL_ON_ALL_RANKS = {"all_reduce", "broadcast", "reduce"}


def inspect_process_groups(folder):
    """Makes the first process group start the thread. Before, a program may rely on having a single
    thread; a process group starts threads itself."""
    rendezvous = sys.modules.get("torch.distributed.rendezvous")
    handlers = getattr(rendezvous, "_rendezvous_handlers", None)
    if not isinstance(handlers, dict):
        return
    inspection = Inspection(folder)
    for scheme, handler in list(handlers.items()):
        handlers[scheme] = inspection.before(handler)


class Inspection:
    def __init__(self, folder):
        self.folder, self.process, self.is_started = folder, os.getpid(), False

    def before(self, handler):
        import functools

        @functools.wraps(handler)
        def start_and_call(*arguments, **named):
            self.start()
            return handler(*arguments, **named)

        return start_and_call

    def start(self):
        """Does nothing in forks of the worker."""
        if self.is_started or os.getpid() != self.process:
            return
        self.is_started = True
        try:
            # Modules that the thread uses: it could wait for another one that imports.
            import _thread
            import json
            import signal
            import socket
            import struct
            import threading

            modules = signal, socket, struct, threading, json
            _thread.start_new_thread(self.serve, (self.listen(socket), *modules))
        except Exception:
            pass  # ddprun has other methods

    def listen(self, socket):
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(f"/proc/self/fd/{folder}/{INSPECTION_SOCKET}")  # a short path
            listener.listen()
            return listener
        finally:
            os.close(folder)

    def serve(self, listener, signal, socket, struct, threading, json):
        # Those of the program; the worker runtime sends others to each thread.
        usual = {number for number in signal.valid_signals() if number < signal.SIGRTMIN}
        signal.pthread_sigmask(signal.SIG_BLOCK, usual)
        credentials = struct.Struct("3i")  # process, user and group
        while True:
            connection, _ = listener.accept()
            with connection:
                try:
                    connection.settimeout(SEND_LIMIT_SECONDS)
                    peer = connection.getsockopt(
                        socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size
                    )
                    if credentials.unpack(peer)[1] in (0, os.geteuid()):
                        connection.sendall(answer(threading, json).encode("utf-8", "replace"))
                except Exception:
                    pass  # ddprun finds no complete answer


def answer(threading, json):
    lines = []
    try:
        for group in process_groups(json):
            lines += group.lines()
    except Exception:
        lines = []  # another version of PyTorch
    return "\n".join([*lines, "stacks", *stacks_of_threads(threading), "end", ""])


# Stacks


def stacks_of_threads(threading):
    """Yields lines in the form of py-spy's, the main thread first."""
    own, main = threading.get_ident(), threading.main_thread().ident
    names = {thread.ident: thread for thread in list(threading._active.values())}
    frames = sys._current_frames()
    for ident in sorted(frames, key=lambda ident: ident != main)[:THREADS_MAX]:
        if ident == own:
            continue
        thread = names.get(ident)
        native = getattr(thread, "native_id", None)
        state = f"Thread {native} ({state_of_thread(native)})" if native else "Thread"
        yield f'{state}: "{thread.name if thread else "?"}"'.replace("\n", " ")
        frame, count = frames[ident], 0
        while frame is not None and count < FRAMES_MAX:
            code = frame.f_code
            name = getattr(code, "co_qualname", code.co_name)
            line = f"    {name} ({short_path(code.co_filename)}:{frame.f_lineno})"
            yield line.replace("\n", " ")
            frame, count = frame.f_back, count + 1


def state_of_thread(native):
    try:
        with open(f"/proc/self/task/{native}/stat", encoding="utf-8", errors="replace") as file:
            letter = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "unknown"
    return "active" if letter == "R" else "idle"


def short_path(path):
    folders = [os.path.join(folder, "") for folder in sys.path if folder]
    known = max((folder for folder in folders if path.startswith(folder)), key=len, default="")
    return path[len(known) :]


# Process groups


class Group:
    def __init__(self, name, rank, members):
        self.name, self.rank, self.members = name, rank, members
        self.calls, self.entered = [], 0

    def add(self, entry, now):
        """Adds an entry of PyTorch's flight recorder."""
        is_message = bool(entry["is_p2p"])
        number = self.entered if is_message else entry["collective_seq_id"] - 1
        if number < self.entered and not is_message:
            self.calls, self.entered = [], 0  # of an earlier group with this name
        if not is_message:
            self.entered = number + 1
        call, size = describe_call(entry)
        has_ended = entry["retired"] or entry["state"] == "completed"
        begin = entry["time_created_ns"]
        end = (entry.get("time_discovered_completed_ns") or begin) if has_ended else now
        self.calls.append(
            [
                "flight",
                number,
                int(is_message),
                int(has_ended),
                max(0, now - begin),
                max(0, now - end),
                size,
                call,
            ]
        )

    def lines(self):
        listed = self.members if len(self.members) <= MEMBERS_MAX else []
        members = ",".join(map(str, listed))
        for fields in [
            ["group", self.rank, len(self.members), self.entered, members, self.name],
            *self.calls[-FLIGHTS_MAX:],
        ]:
            yield "\t".join(str(field).replace("\t", " ").replace("\n", " ") for field in fields)


def describe_call(entry):
    """Returns the call, in the words of the worker runtime, and the bytes of its tensors."""
    name = entry["profiling_name"].rpartition(":")[2]
    sizes, types = entry.get("input_sizes") or [], entry.get("input_dtypes") or []
    counts = []
    for size in sizes:
        counts.append(1)
        for extent in size:
            counts[-1] *= extent
    if name not in EQUAL_ON_ALL_RANKS or not types or len(set(types)) > 1:
        return name, 0
    bytes_each = TYPE_BYTES.get(types[0], 1)
    kind = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "int64"}
    text = kind.get(types[0], types[0].lower())
    return f"{name}({sum(counts)} x {text})", sum(counts) * bytes_each


def process_groups(json):
    """Returns the groups with their last calls, oldest first. Returns nothing unless the ranks of
    PyTorch are those of ddprun."""
    import time

    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    default = getattr(world, "default_pg", None)
    if default is None:
        return []
    place = (str(default.rank()), str(default.size()))
    if place != (os.environ.get("RANK"), os.environ.get("WORLD_SIZE")):
        return []
    groups = {}
    for group, ranks in list(world.pg_group_ranks.items())[:GROUPS_MAX]:
        name = world.pg_names.get(group)
        members = sorted(ranks, key=ranks.get)
        if name is not None and default.rank() in ranks:
            groups[name] = Group(name, ranks[default.rank()], members)
    now = time.time_ns()
    for entry in recorded_calls(json):
        name, description = entry["process_group"][:2]
        group = groups.get(name)
        if group is None:
            continue
        if description not in ("", "undefined"):
            group.name = description if group is groups.get("0") else f"{name}:{description}"
        group.add(entry, now)
    return list(groups.values())


def recorded_calls(json):
    library = sys.modules["torch._C._distributed_c10d"]
    for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"):
        dump = getattr(library, name, None)
        entries = json.loads(dump()).get("entries") if dump is not None else None
        if entries:
            return entries
    return []
