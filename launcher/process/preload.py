"""Imports modules once, for all workers of a node.

ddprun starts an interpreter with the command line of a worker and with this file as
sitecustomize.py in PYTHONPATH, so that it runs at the end of the interpreter's initialisation,
before the program. The interpreter imports the modules and then waits for requests. Each worker is
a fork, in which this file ends and the interpreter runs the program as after any other start.

Messages are packets of fields separated by NUL on the socket that DDPRUN_PRELOAD names, with the
process ID of ddprun.
"""

import _socket
import atexit
import errno
import gc
import os
import sys
import time

STREAMS = 3
PACKET_BYTES_MAX = 1 << 16
DESCRIPTORS_MAX = 16
FAILED_START = 127
PARENT_LIMIT_SECONDS = 5
FORK_STEP = 1  # StartStep::fork
ENVIRONMENT_MODULES = {"os", "_collections_abc", "collections.abc"}
MEMORY_DEVICES = {"null", "zero", "full", "random", "urandom"}
# From the kernel's headers.
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_PTRACER = 1, 15, 0x59616D61
SIGKILL, MPOL_PREFERRED = 9, 1


class Unsafe(Exception):
    """A fork of this process would differ from a new process."""


def leave_path():
    """Makes sys.path what it is without this file."""
    folder = os.path.dirname(__file__)
    sys.path.remove(folder)
    sys.path_importer_cache.pop(folder, None)


def leave_environment():
    """Makes the environment what it is without this file, and removes the file."""
    del os.environ["DDPRUN_PRELOAD"]
    rest = os.environ["PYTHONPATH"][len(os.path.dirname(__file__)) :]
    if rest:
        os.environ["PYTHONPATH"] = rest[1:]
    else:
        del os.environ["PYTHONPATH"]
    for path in (__file__, __spec__.cached):
        try:
            os.unlink(path)
        except OSError:
            pass  # no compiled file was written


def import_other_sitecustomize():
    """Returns False if there is none."""
    del sys.modules["sitecustomize"]
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        return False
    return True


class Channel:
    def __init__(self, descriptor):
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
        os.set_inheritable(descriptor, False)

    def send(self, *fields):
        """Ends this process if ddprun has ended."""
        encoded = [str(field).encode("utf-8", "backslashreplace") for field in fields]
        packet = b"\0".join(field.replace(b"\0", b"?") for field in encoded)
        try:
            self.socket.send(packet[:PACKET_BYTES_MAX])
        except OSError:
            os._exit(1)

    def close(self):
        self.socket.close()

    def receive(self):
        """Returns the fields and the descriptors of the next message."""
        size = _socket.CMSG_LEN(4 * DESCRIPTORS_MAX)
        packet, ancillary, _, _ = self.socket.recvmsg(
            PACKET_BYTES_MAX, size, _socket.MSG_CMSG_CLOEXEC
        )
        if not packet:
            os._exit(0)
        descriptors = []
        for level, kind, data in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                descriptors += [
                    int.from_bytes(data[at : at + 4], sys.byteorder)
                    for at in range(0, len(data) - 3, 4)
                ]
        return packet.split(b"\0"), descriptors


# Imports


class Watch:
    """Ends this process when an import uses a variable that ddprun sets for each worker."""

    def __init__(self, channel, names):
        self.module, self.plain = "", type(os.environ)
        watch, plain = self, self.plain

        class WatchedEnvironment(plain):
            def __getitem__(self, key):
                if key in names:
                    reason = f"reads {key}, which ddprun sets for each worker, in {caller()}"
                    channel.send("unsafe", watch.module, reason)
                    os._exit(0)
                return plain.__getitem__(self, key)

        os.environ.__class__ = WatchedEnvironment

    def end(self):
        os.environ.__class__ = self.plain


def caller():
    """Returns file and line of the code that uses os.environ."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in ENVIRONMENT_MODULES:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def count_threads():
    return len(os.listdir("/proc/self/task"))


def open_files():
    files = {}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            files[descriptor] = os.readlink("/proc/self/fd/" + descriptor)
        except OSError:
            pass  # of the listing itself
    return files


def list_children():
    """Returns nothing if the kernel does not support the list."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


class Surroundings:
    """State of the process that imports must not change."""

    def __init__(self):
        self.files, self.folder, self.path = open_files(), os.getcwd(), list(sys.path)

    def check(self):
        if list_children():
            raise Unsafe("leaves a process running")
        if os.getcwd() != self.folder:
            raise Unsafe("changes the working directory")
        if sys.path != self.path:
            raise Unsafe("changes sys.path")
        check_fork_safety(self.files)


def check_fork_safety(known_files):
    if count_threads() > 1:
        # Some libraries, such as OpenBLAS, end their threads before a fork.
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        if count_threads() > 1:
            raise Unsafe("starts threads")
    for descriptor, file in open_files().items():
        is_memory = file.startswith("/dev/") and file[len("/dev/") :] in MEMORY_DEVICES
        if known_files.get(descriptor) != file and not is_memory:
            raise Unsafe(f"leaves {file} open")


def import_one(text):
    """Imports "module" or, like the statement `from`, "module:name,name"."""
    name, _, names = text.partition(":")
    __import__(name)
    module = sys.modules[name]
    for each in names.split(",") if names else []:
        if hasattr(module, "__path__") and not hasattr(module, each):
            __import__(f"{name}.{each}")


class Changes:
    """Changes of the environment by sitecustomize and by imports, which workers make again."""

    def __init__(self):
        self.before = dict(os.environb)

    def end(self):
        after = dict(os.environb)
        self.values = {
            name: value for name, value in after.items() if self.before.get(name) != value
        }
        self.removed = set(self.before) - set(after)

    def make(self):
        for name in self.removed & set(os.environb):
            del os.environb[name]
        os.environb.update(self.values)


def import_all(channel, names, program, is_module, watched, reports_failures):
    """Reports "ready", or the first module that makes forks unsafe."""
    start = time.monotonic()
    folder = first_folder(program, is_module)
    if folder is not None:
        sys.path.insert(0, folder)
    surroundings, watch, imported = Surroundings(), Watch(channel, watched), []
    for name in names:
        channel.send("importing", name)
        watch.module = name
        failure = None
        try:
            import_one(name)
            imported.append(name)
        except BaseException as error:
            failure = describe(error)
        try:
            surroundings.check()
        except Unsafe as reason:
            channel.send("unsafe", name, reason)
            os._exit(0)
        if failure and reports_failures:
            channel.send("failed", name, failure)
    watch.end()
    if folder is not None:
        sys.path.remove(folder)
    channel.send("ready", f"{time.monotonic() - start:.2f}", *imported)


def describe(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


class Files:
    """Files of the program and of the imported modules. Modules in an archive have its state."""

    def __init__(self, program, begin):
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        paths = {path for path in [program, *modules] if isinstance(path, str)}
        self.states = {path: self.state(path) for path in paths}
        # Possibly changed during the imports.
        self.changed = [path for path, state in self.states.items() if state and state[0] >= begin]

    @staticmethod
    def state(path):
        while path:
            try:
                status = os.stat(path)
            except NotADirectoryError:
                path = os.path.dirname(path)
            except OSError:
                return None
            else:
                return (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
        return None

    def first_change(self):
        """Returns None if no file has changed."""
        if self.changed:
            return self.changed[0]
        return next(
            (path for path, state in self.states.items() if self.state(path) != state), None
        )


# Workers


class Kernel:
    """System calls that the standard library lacks."""

    def __init__(self):
        import ctypes

        self.ctypes = ctypes
        self.libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/comm", encoding="utf-8", errors="replace") as file:
            self.name = file.read().strip()

    def control_process(self, option, value):
        self.libc.prctl(option, self.ctypes.c_ulong(value), 0, 0, 0)

    def set_name(self, name):
        self.libc.prctl(PR_SET_NAME, self.ctypes.c_char_p(os.fsencode(name)), 0, 0, 0)

    def prefer_memory_of(self, node, call):
        bits = 8 * self.ctypes.sizeof(self.ctypes.c_ulong)
        mask = (self.ctypes.c_ulong * (node // bits + 1))()
        mask[node // bits] = 1 << (node % bits)
        self.libc.syscall(call, MPOL_PREFERRED, mask, self.ctypes.c_ulong(len(mask) * bits + 1))


class Worker:
    """What ddprun and the kernel do between the fork and the exec of a worker without this file."""

    def __init__(self, fields, descriptors):
        self.kept, self.memory_node, self.memory_call = (int(field) for field in fields[1:4])
        self.cpus = [int(cpu) for cpu in fields[4].split(b",") if cpu]
        self.argument_count, self.inspection_socket = int(fields[5]), fields[6]
        self.request, *self.streams = descriptors[: 1 + STREAMS]
        self.status, self.page, *self.cgroup = descriptors[1 + STREAMS :]

    def close(self):
        for descriptor in [self.request, *self.streams, self.status, self.page, *self.cgroup]:
            os.close(descriptor)

    def start(self, kernel, agent, release, changes):
        """Returns in the worker that runs the program. Ends it if the start fails; ddprun then
        starts it without this process, which also finds the cause if it is not this process."""
        try:
            kernel.set_name(kernel.name)
            os.setsid()
            self.enter_cgroup()
            self.set_processors(kernel)
            self.set_arguments_and_environment(changes)
            release = self.set_descriptors(release)
            renew_state()
            if self.inspection_socket:
                inspect_process_groups(self.inspection_socket)
            self.wait_for_parent(kernel, agent, release)
        except Exception as error:
            os.write(2, f"the fork of a worker has failed: {describe(error)}\n".encode())
            record = (FORK_STEP, errno.EAGAIN)
            os.write(self.status, b"".join(field.to_bytes(4, sys.byteorder) for field in record))
            os._exit(FAILED_START)
        os.close(self.status)  # like the exec of another worker

    def enter_cgroup(self):
        for folder in self.cgroup:
            members = os.open("cgroup.procs", os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
            os.write(members, b"0")
            os.close(members)

    def set_processors(self, kernel):
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        if self.memory_node >= 0:
            kernel.prefer_memory_of(self.memory_node, self.memory_call)

    def set_arguments_and_environment(self, changes):
        with open(self.request, "rb", closefd=False) as file:
            words = file.read().split(b"\0")[:-1]
        arguments = [os.fsdecode(word) for word in words[: self.argument_count]]
        sys.argv[1:] = arguments
        if arguments and hasattr(sys, "orig_argv"):
            sys.orig_argv[-len(arguments) :] = arguments
        os.environ.clear()
        for word in words[self.argument_count :]:
            name, _, value = word.partition(b"=")
            if name:
                os.environb[name] = value
        changes.make()

    def set_descriptors(self, release):
        """Gives the page the number that the environment names. Returns the moved `release`."""
        import fcntl

        def move(descriptor):
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, self.kept + 1)

        for target, stream in enumerate(self.streams):
            os.dup2(stream, target)
        page, status, moved = move(self.page), move(self.status), move(release)
        self.close()
        os.close(release)
        self.status = status
        if os.path.exists(f"/proc/self/fd/{self.kept}"):
            raise OSError(errno.EBUSY, "a module uses this descriptor")
        os.dup2(page, self.kept)
        os.close(page)
        self.renew_standard_input()
        return moved

    @staticmethod
    def renew_standard_input():
        """Replaces a stream that depends on the kind of the file."""
        old = sys.stdin
        if old is None or os.path.samestat(os.fstat(0), os.stat(os.devnull)):
            return
        new = open(0, "r", encoding=old.encoding, errors=old.errors, newline="\n", closefd=False)
        new.buffer.raw.name = "<stdin>"
        new.mode = "r"
        new.reconfigure(write_through=old.write_through)
        sys.stdin = sys.__stdin__ = new

    def wait_for_parent(self, kernel, agent, release):
        """Returns once ddprun is the parent, whose death then kills this process."""
        if not os.read(release, 1):
            raise OSError(errno.ECHILD, "ddprun does not know this process")
        os.close(release)
        deadline = time.monotonic() + PARENT_LIMIT_SECONDS
        while os.getppid() != agent and time.monotonic() < deadline:
            os.sched_yield()  # the kernel is about to do it
        kernel.control_process(PR_SET_PDEATHSIG, SIGKILL)
        kernel.control_process(PR_SET_PTRACER, agent)
        if os.getppid() != agent:
            os._exit(FAILED_START)


def renew_state():
    """Replaces what modules have derived from the state of the process that imported them."""
    threading = sys.modules.get("threading")
    if threading is not None and hasattr(threading.Thread, "_set_native_id"):
        threading.main_thread()._set_native_id()
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy_random is not None:
        numpy_random.seed()
    if torch is not None:
        torch.default_generator.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
    # The collection at the end closes files of the program and calls its finalizers.
    atexit.register(gc.unfreeze)


def fork_workers(channel, kernel, agent, changes):
    """Forks workers until ddprun sends "end". Returns in the workers, not in this process.

    When this process ends, ddprun becomes the parent of the workers and thus learns their exit
    status. Workers that ddprun does not know end if this process ends early.
    """
    release, held = os.pipe()
    count = 0
    while True:
        fields, descriptors = channel.receive()
        if fields[0] == b"end":
            os.write(held, bytes(count))
            os._exit(0)
        worker = Worker(fields, descriptors)
        pid = os.fork()
        if pid == 0:
            os.close(held)
            channel.close()
            return worker.start(kernel, agent, release, changes)
        count += 1
        worker.close()
        channel.send("pid", pid)


def serve(channel, agent, changes):
    """Returns in the workers, not in this process."""
    fields, _ = channel.receive()
    program, is_module = os.fsdecode(fields[1]), fields[2] == b"module"
    if fields[0] == b"find":
        finder = ImportFinder(program, is_module) if program else None
        channel.send("imports", *([finder.end, *finder.found] if finder else [""]))
        os._exit(0)
    kernel, begin = Kernel(), time.time_ns()
    kernel.set_name("ddprun-preload")
    watched, modules = os.fsdecode(fields[4]).split(","), os.fsdecode(fields[5]).split()
    import_all(channel, modules, program, is_module, set(watched), fields[3] == b"report")
    changes.end()
    files = Files(program, begin)
    gc.collect()
    gc.freeze()  # the collector does not write to these objects, so that workers share their memory
    while True:
        fields, _ = channel.receive()
        if fields[0] == b"check":
            changed = files.first_change()
            channel.send(*(["ready"] if changed is None else ["changed", changed]))
            continue
        pid = os.fork()
        if pid == 0:
            return fork_workers(channel, kernel, agent, changes)
        os.waitpid(pid, 0)
        channel.send("done")


def main():
    """Returns in the workers, and in other interpreters, for example of a wrapper: whether there is
    another module sitecustomize."""
    descriptor, agent = map(int, os.environ["DDPRUN_PRELOAD"].split(":"))
    leave_path()
    if os.getppid() != agent:
        return import_other_sitecustomize()
    channel = Channel(descriptor)
    leave_environment()
    try:
        if sys.version_info < (3, 8):
            raise RuntimeError("Python 3.8 or later is needed")
        changes = Changes()
        has_other = import_other_sitecustomize()
        serve(channel, agent, changes)
    except Exception as error:
        channel.send("unusable", describe(error))
        os._exit(1)
    return has_other


if not main():
    raise ImportError("there is no module sitecustomize", name="sitecustomize")
