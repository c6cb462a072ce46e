"""Writes facts about this worker as JSON, to compare workers with and without --preload."""

import atexit
import ctypes
import gc
import inspect
import json
import locale
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import traceback
import warnings

PR_GET_PDEATHSIG = 2
# Modules that an interpreter with --preload has imported in addition.
HELPERS = {"_socket", "errno", "gc", "time", "fcntl", "array"}
VARYING = {
    "RANK",
    "MASTER_PORT",
    "DDPRUN_MARKER",
    "DDPRUN_STORE_PORT",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_RUN_ID",
    "DDPRUN_RUN_KEY",
}


class OfMain:
    def __eq__(self, other):
        return type(self) is type(other)


def square(number):
    return number * number


def status(name):
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(
            (line.split(":", 1)[1].split() for line in file if line.startswith(name + ":")), None
        )


def cgroup_kind():
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        return ["ddprun-run-" in line for line in file]


def parent_death_signal():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def stream_facts(stream):
    return [
        stream.encoding,
        stream.errors,
        stream.line_buffering,
        stream.isatty(),
        stream.seekable(),
        stream.mode,
        getattr(stream, "write_through", None),
        type(stream.buffer).__name__,
        stream.name,
    ]


def caught_traceback():
    try:
        raise ValueError("text")
    except ValueError:
        return traceback.format_exc()


def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("text", stacklevel=2)
        return [[w.filename, w.lineno] for w in caught]


def spawned(method):
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        return pool.map(square, [3])


def child(code):
    return subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def facts():
    main = sys.modules["__main__"]
    kept = int(os.environ["DDPRUN_CONTROL_FD"])
    return {
        "argv": sys.argv,
        "orig_argv": getattr(sys, "orig_argv", None),
        "path": sys.path,
        "importer cache": sorted(path for path in sys.path_importer_cache),
        "flags": [str(sys.flags), str(sys._xoptions), sys.warnoptions],
        "executable": [sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix],
        "main": [
            main.__name__,
            getattr(main, "__file__", None),
            getattr(main.__spec__, "name", None),
            main.__doc__,
            type(main.__loader__).__name__,
            main.__package__,
            main.__builtins__.__name__,
            sorted(name for name in vars(main) if name.startswith("__")),
        ],
        "main module is this": main.OfMain is OfMain,
        "frames": [[frame.function, frame.filename] for frame in inspect.stack()],
        "printed stack": traceback.format_stack(),
        "traceback": caught_traceback(),
        "warning": warned(),
        "warning filters": [str(entry) for entry in warnings.filters],
        "sitecustomize": "sitecustomize" in sys.modules,
        "usercustomize": "usercustomize" in sys.modules,
        "modules": sorted(set(sys.modules) - HELPERS),
        "environment": {name: value for name, value in os.environ.items() if name not in VARYING},
        "names in the environment": sorted(os.environ),
        "environment in C": child("import os; print(sorted(os.environ))"),
        "python path of a child": child("import sys; print(sys.path)"),
        "folder": os.getcwd(),
        "umask": os.umask(0o22),
        "ids": [os.getuid(), os.getgid(), os.getgroups()],
        "is leader": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
        "parent's name": open(f"/proc/{os.getppid()}/comm", encoding="utf-8").read(),
        "name": open("/proc/self/comm", encoding="utf-8").read(),
        "command line": open("/proc/self/cmdline", "rb").read().decode(),
        "parent death": parent_death_signal(),
        "cgroup": cgroup_kind(),
        "signals": [status(name) for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd")],
        "handlers": [
            str(signal.getsignal(number)).split(" at ")[0] for number in signal.valid_signals()
        ],
        "capabilities": [
            status(name) for name in ("CapInh", "CapPrm", "CapEff", "NoNewPrivs", "Seccomp")
        ],
        "limits": [
            resource.getrlimit(getattr(resource, name))
            for name in sorted(dir(resource))
            if name.startswith("RLIMIT_")
        ],
        "affinity": sorted(os.sched_getaffinity(0)),
        "nice": os.nice(0),
        "oom": open("/proc/self/oom_score_adj", encoding="utf-8").read(),
        "core filter": open("/proc/self/coredump_filter", encoding="utf-8").read(),
        "threads": [
            len(os.listdir("/proc/self/task")),
            threading.active_count(),
            threading.current_thread().name,
            threading.main_thread() is threading.current_thread(),
            threading.main_thread().native_id == os.getpid(),
        ],
        "descriptors": sorted(
            int(name) for name in os.listdir("/proc/self/fd")
        ),
        "number of descriptors": len(os.listdir("/proc/self/fd")),
        "inheritable": [os.get_inheritable(number) for number in (0, 1, 2, kept)],
        "kinds of streams": [
            os.readlink(f"/proc/self/fd/{number}").split(":")[0] for number in (0, 1, 2)
        ],
        "streams": [stream_facts(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "locale": [
            locale.setlocale(locale.LC_ALL),
            locale.getpreferredencoding(False),
            sys.getfilesystemencoding(),
        ],
        "hooks": [
            sys.excepthook is sys.__excepthook__,
            sys.displayhook is sys.__displayhook__,
            sys.breakpointhook is sys.__breakpointhook__,
            len(sys.meta_path),
            len(sys.path_hooks),
        ],
        "limits of the interpreter": [
            sys.getrecursionlimit(),
            sys.getswitchinterval(),
            gc.isenabled(),
            gc.get_threshold(),
            sys.dont_write_bytecode,
        ],
        "fault handler": __import__("faulthandler").is_enabled(),
        "pickled class": pickle.loads(pickle.dumps(OfMain())) == OfMain(),
        "spawn": spawned("spawn"),
        "forkserver": spawned("forkserver"),
        "fork": spawned("fork"),
        "multiprocessing": [
            multiprocessing.current_process().name,
            multiprocessing.parent_process() is None,
        ],
    }


def of_each_worker():
    """Facts that must differ between workers."""
    return [random.random(), multiprocessing.current_process().authkey.hex()]


if __name__ == "__main__":
    atexit.register(print, "atexit has run", flush=True)
    with open(f"{sys.argv[-1]}-{os.environ['RANK']}", "w", encoding="utf-8") as output:
        json.dump({"facts": facts(), "own": of_each_worker()}, output)
