"""Answers ddprun's requests for the state of a forked worker that takes part in a process group of
PyTorch. Precedes preload.py in the file of the interpreter.

A thread listens on a socket, whose random name ddprun chooses, and sends its answer to each
connection of this user: lines of fields separated by tabs about the last calls of the process
groups, and after the line "stacks" the Python frames of all threads. It is PythonAnswer in
python_answer.hpp.
"""

import _socket
import _thread
import atexit
import os
import sys
import time

SEND_LIMIT_SECONDS, EXIT_LIMIT_SECONDS = 1, 1
GROUPS_MAX, FLIGHTS_MAX, MEMBERS_MAX = 16, 256, 256  # as in flight_recorder.hpp
THREADS_MAX, FRAMES_MAX = 256, 256
STACK_CHARACTERS_MAX = 1 << 18
CREDENTIALS_BYTES, USER_OFFSET = 12, 4  # of SO_PEERCRED: process, user and group
TYPE_BYTES = {"Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}
TYPE_NAMES = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "int64"}
# Collectives whose tensors have the same sizes on all ranks.
EQUAL_ON_ALL_RANKS = {"all_reduce", "broadcast", "reduce"}


def inspect_process_groups(name):
    """Makes the first process group start the thread. Before, a program may rely on having a single
    thread; a process group starts threads itself."""
    rendezvous = sys.modules.get("torch.distributed.rendezvous")
    handlers = getattr(rendezvous, "_rendezvous_handlers", None)
    if not isinstance(handlers, dict):
        return
    inspection = Inspection(name)
    for scheme, handler in list(handlers.items()):
        handlers[scheme] = inspection.before(handler)


class Inspection:
    def __init__(self, name):
        # PyTorch has imported them. The thread imports nothing, since it could wait for another one
        # that imports.
        import functools
        import json
        import signal
        import threading

        self.wraps, self.load_json, self.threading = functools.wraps, json.loads, threading
        self.mask, self.block = signal.pthread_sigmask, signal.SIG_BLOCK
        # Programs use these; the worker runtime sends others to each thread.
        self.signals = {number for number in signal.valid_signals() if number < signal.SIGRTMIN}
        # The program may replace these functions (gevent).
        self.start_thread, self.own_ident = _thread.start_new_thread, _thread.get_ident
        self.lock, self.is_ending = _thread.allocate_lock(), False
        self.name, self.process, self.is_started = name, os.getpid(), False
        self.since = 0  # time of the last start of the default group

    def before(self, handler):
        @self.wraps(handler)
        def start_and_call(*arguments, **named):
            self.start()
            return handler(*arguments, **named)

        return start_and_call

    def start(self):
        """Does nothing in forks of the worker."""
        if os.getpid() != self.process:
            return
        self.since = time.time_ns()
        if self.is_started:
            return
        self.is_started = True
        try:
            listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
            listener.bind(b"\0" + self.name)  # without a file
            listener.listen(8)
            atexit.register(self.end)
            self.start_thread(self.serve, (listener,))
        except Exception:
            pass  # ddprun has other methods

    def end(self):
        """Lets the interpreter end: it could not end a thread in a function of PyTorch."""
        self.is_ending = True
        self.lock.acquire(True, EXIT_LIMIT_SECONDS)

    def serve(self, listener):
        self.mask(self.block, self.signals)
        while True:
            descriptor, _ = listener._accept()
            connection = _socket.socket(fileno=descriptor)
            try:
                self.answer(connection)
            except Exception:
                pass  # ddprun finds no complete answer
            finally:
                connection.close()

    def answer(self, connection):
        connection.settimeout(SEND_LIMIT_SECONDS)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, CREDENTIALS_BYTES)
        user = int.from_bytes(peer[USER_OFFSET : USER_OFFSET + 4], sys.byteorder)
        if user not in (0, os.geteuid()):
            return
        with self.lock:
            if self.is_ending:
                return
            stacks = stacks_of_threads(self.threading, self.own_ident())
            groups = self.process_groups()
        answer = "\n".join([*groups, "stacks", *stacks, "end", ""])
        connection.sendall(answer.encode("utf-8", "replace"))

    def process_groups(self):
        try:
            return lines_of_groups(recorded_calls(self.load_json), time.time_ns(), self.since)
        except Exception:
            return []  # another version of PyTorch


# Stacks


def stacks_of_threads(threading, own):
    """Returns lines in the form of py-spy's, the main thread first."""
    main = threading.main_thread().ident
    threads = {thread.ident: thread for thread in list(threading._active.values())}
    stacks = frames_of_threads()
    lines, left = [], STACK_CHARACTERS_MAX
    for ident in sorted(stacks, key=lambda ident: ident != main)[:THREADS_MAX]:
        if ident == own:
            continue
        thread = threads.get(ident)
        native = getattr(thread, "native_id", None)
        state = f"Thread {native} ({state_of_thread(native)})" if native else "Thread"
        lines.append(f'{state}: "{thread.name if thread else "?"}"'.replace("\n", " "))
        for code, number in stacks[ident]:
            name = getattr(code, "co_qualname", code.co_name)
            line = f"    {name} ({short_path(code.co_filename)}:{number})".replace("\n", " ")
            left -= len(line)
            if left < 0:
                return lines
            lines.append(line)
    return lines


def frames_of_threads():
    """Returns code and line of all frames by thread. Keeps no frame, because its objects would be
    destroyed in this thread if the function returned in the meantime."""
    stacks = {}
    for ident, frame in sys._current_frames().items():
        stack = stacks[ident] = []
        while frame is not None and len(stack) < FRAMES_MAX:
            stack.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
    return stacks


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
        self.weight = (False, len(members), 0)  # whether a call has not ended; its time

    def add(self, entry, now):
        """Adds an entry of PyTorch's flight recorder."""
        is_message = bool(entry["is_p2p"])
        number = self.entered if is_message else entry["collective_seq_id"] - 1
        if not is_message:
            self.entered = max(self.entered, number + 1)
        call, size = describe_call(entry)
        has_ended = bool(entry["retired"] or entry["state"] == "completed")
        begin = entry["time_created_ns"]
        end = (entry.get("time_discovered_completed_ns") or begin) if has_ended else now
        times = max(0, now - begin), max(0, now - max(begin, end))
        self.weight = (not has_ended, len(self.members), begin)
        self.calls.append(["flight", number, int(is_message), int(has_ended), *times, size, call])

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
    types = entry.get("input_dtypes") or []
    if name not in EQUAL_ON_ALL_RANKS or len(set(types)) != 1:
        return name, 0
    elements = 0
    for size in entry.get("input_sizes") or []:
        count = 1
        for extent in size:
            count *= extent
        elements += count
    kind = TYPE_NAMES.get(types[0], types[0].lower())
    return f"{name}({elements} x {kind})", elements * TYPE_BYTES.get(types[0], 1)


def lines_of_groups(calls, now, since):
    """Returns the groups with their last calls after `since`, oldest first. Returns nothing unless
    the ranks of PyTorch are those of ddprun."""
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    default = getattr(world, "default_pg", None)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own_rank = world.pg_group_ranks[default].get(rank) if default is not None else None
    if own_rank != rank or len(world.pg_group_ranks[default]) != size:
        return []
    groups = {}
    for group, ranks in list(world.pg_group_ranks.items()):
        if rank not in ranks:
            continue
        number = world.pg_names[group]
        for backend, name in names_of_group(world, group, number, group is default):
            members = sorted(ranks, key=ranks.get)
            groups[number, backend] = Group(name, ranks[rank], members)
    for entry in calls:
        number, backend = entry["process_group"][0], entry["profiling_name"].partition(":")[0]
        group = groups.get((number, backend)) or groups.get((number, None))
        if group is not None and entry["time_created_ns"] >= since:
            group.add(entry, now)
    ordered = sorted(groups.values(), key=lambda group: group.weight, reverse=True)
    lines = [f"unrecorded\t{max(0, len(ordered) - GROUPS_MAX)}"]
    for group in ordered[:GROUPS_MAX]:
        lines += group.lines()
    return lines


def names_of_group(world, group, number, is_default):
    """Returns backend and name, which are equal on all ranks; the backend is None if there is only
    one. Each backend counts its calls."""
    description = getattr(group, "group_desc", "")
    name = "default_pg" if is_default else number
    if description not in ("", "undefined", "default_pg"):
        name = f"{number}:{description}"
    configured = str(getattr(world, "pg_backend_config", {}).get(group, ""))
    backends = {part.rpartition(":")[2] for part in configured.split(",")}
    if len(backends) < 2:
        return [(None, name)]
    return [(backend, f"{name} ({backend})") for backend in sorted(backends)]


def recorded_calls(load_json):
    library, calls = sys.modules["torch._C._distributed_c10d"], []
    seen = set()
    for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"):
        dump = getattr(library, name, None)
        for entry in (load_json(dump()).get("entries") or []) if dump is not None else []:
            key = entry["profiling_name"], entry["process_group"][0], entry["record_id"]
            if key not in seen:
                seen.add(key)
                calls.append(entry)
    return calls
