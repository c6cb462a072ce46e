"""Backend "ddprun" of torch.distributed, for tensors in the memory of CPUs.

Importing this module registers it: torch.distributed.init_process_group("ddprun"). Collectives of
one node run in shared memory, and those of several nodes over TCP. Other calls, such as messages
and bitwise reductions, are Gloo's.
"""

import atexit
import ctypes
import os
import queue
import sys
import threading
import weakref
from collections import OrderedDict, deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo, ReduceOp, Work

__all__ = ["PeerFailed"]

# Enumerators of the library: Collective, DataType, ReduceOp.
_ALL_REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER, _REDUCE, _GATHER, _SCATTER = range(7)
_BARRIER = 10
_TYPES = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.uint8: 6,
}
_BYTES = _TYPES[torch.uint8]
_REDUCTIONS = {
    ReduceOp.SUM: 0,
    ReduceOp.AVG: 1,
    ReduceOp.PRODUCT: 2,
    ReduceOp.MIN: 3,
    ReduceOp.MAX: 4,
}

# Before PyTorch 2.8, a Work of Python to which only C++ code refers loses its methods, and its
# wait() blocks without end. A group therefore refers to works until they have been waited for.
_NEEDS_REFERENCES = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8)
_REFERENCES_MAX = 4096

# Time limit for callbacks of futures at the interpreter's exit.
_EXIT_SECONDS = 5

_Error = getattr(dist, "DistBackendError", RuntimeError)


class PeerFailed(_Error):
    """A collective that cannot complete because another rank has failed."""


class _Call(ctypes.Structure):
    """As in worker_runtime/python/c_calls.hpp."""

    _fields_ = [
        ("collective", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("reduction", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("input", ctypes.c_void_p),
        ("input_elements", ctypes.c_size_t),
        ("output", ctypes.c_void_p),
        ("output_elements", ctypes.c_size_t),
    ]


def _load_library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_runtime.so"))
    handle, text = ctypes.c_void_p, ctypes.c_char_p
    ints = ctypes.POINTER(ctypes.c_int32)
    for name, result, arguments in (
        ("last_error", text, []),
        ("has_peer_failed", ctypes.c_int32, []),
        ("create_group", handle, [text, ints, ints, ctypes.c_int32, ctypes.c_double]),
        ("close_group", None, [handle]),
        ("delete_group", None, [handle]),
        ("abort_group", None, [handle, text]),
        ("start", handle, [handle, ctypes.POINTER(_Call)]),
        ("wait", ctypes.c_int32, [handle, ctypes.c_double]),
        ("is_done", ctypes.c_int32, [handle]),
        ("delete_work", None, [handle]),
    ):
        function = getattr(library, "ddprun_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load_library()


def _last_error() -> str:
    return _library.ddprun_last_error().decode("utf-8", "replace")


class _Started:
    """A collective of the library, and the tensors whose memory it uses."""

    def __init__(self, handle: int, tensors: List[torch.Tensor]):
        self.handle, self.tensors = handle, tensors

    def __del__(self, delete: Any = _library.ddprun_delete_work) -> None:
        delete(self.handle)

    def is_done(self) -> bool:
        return bool(_library.ddprun_is_done(self.handle))

    def wait(self, timeout: timedelta) -> None:
        if not _library.ddprun_wait(self.handle, timeout.total_seconds()):
            failed = PeerFailed if _library.ddprun_has_peer_failed() else _Error
            raise failed(_last_error())
        self.tensors = []


class _Work(Work):
    """One or several collectives that have started, and the copies that follow them."""

    def __init__(
        self,
        group: "_Group",
        started: List[_Started],
        copies: List[Callable[[], None]],
        result: List[torch.Tensor],
    ):
        super().__init__()
        self._group, self._started = group, started
        self._copies, self._result = copies, result
        self._lock = threading.Lock()
        group.refer_to(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        for each in self._started:
            each.wait(timeout)
        if self._copies:
            with self._lock:
                while self._copies:
                    self._copies[-1]()
                    self._copies.pop()
        self._group.references.pop(id(self), None)
        return True

    def synchronize(self) -> None:
        self.wait()

    def has_ended(self) -> bool:
        return all(each.is_done() for each in self._started)

    def is_completed(self) -> bool:
        if not self.has_ended():
            return False
        self.exception()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[Exception]:
        """Return the failure of a collective that has ended."""
        try:
            self.wait()
        except RuntimeError as error:
            return error
        return None

    def result(self) -> List[torch.Tensor]:
        return self._result

    def get_future(self) -> "torch.futures.Future[List[torch.Tensor]]":
        ended: "torch.futures.Future[None]" = torch.futures.Future()
        result = self._result
        # A callback that raises is the only way to fail a future from Python.
        future = ended.then(lambda _: self.wait() and result)
        self._group.futures.complete(self, ended)
        return future


class _Futures:
    """Completes the futures of a group by a thread of its own, in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._has_ended = False
        self._current: Optional[_Work] = None

    def complete(self, work: _Work, future: "torch.futures.Future[None]") -> None:
        if os.getpid() == self._process and threading.current_thread() is not self._thread:
            with self._lock:
                if not self._has_ended:
                    if self._thread is None:
                        self._thread = threading.Thread(
                            target=self._run, name="ddprun", daemon=True
                        )
                        self._thread.start()
                    self._waiting.put((work, future))
                    return
        # A callback of a future may wait for the next one.
        work.exception()
        future.set_result(None)

    def end(self) -> None:
        """Block until the works have ended, except in a callback of a future."""
        with self._lock:
            self._has_ended = True
            thread = self._thread
            self._waiting.put(None)
        if thread is None or thread is threading.current_thread():
            return
        if not _is_exiting:
            thread.join()
            return
        # A work may never end. Its thread is then left in the library; in PyTorch's code, it would
        # abort the process.
        current = self._current
        if current is None or current.has_ended():
            thread.join(_EXIT_SECONDS)

    def _run(self) -> None:
        for work, future in iter(self._waiting.get, None):
            self._current = work
            work.exception()
            if _is_exiting:
                return
            future.set_result(None)
            self._current = None
            del work, future


class _Group:
    """A group of the library. Any thread may call it."""

    def __init__(self, name: str, ranks: List[int], nodes: List[int], timeout: timedelta):
        count, ints = len(ranks), ctypes.c_int32 * len(ranks)
        self._handle = _library.ddprun_create_group(
            name.encode(), ints(*ranks), ints(*nodes), count, timeout.total_seconds()
        )
        if not self._handle:
            raise _Error(_last_error())
        self.futures = _Futures()
        self.references: "OrderedDict[int, _Work]" = OrderedDict()
        # Reentrant, because the collector may run any code at any time.
        self._lock = threading.RLock()
        self._pending: Deque[_Started] = deque()
        self._process = os.getpid()
        _groups.add(self)

    def __del__(self) -> None:
        if self._handle and not _is_exiting and os.getpid() == self._process:
            self.close()
            _library.ddprun_delete_group(self._handle)

    def close(self) -> None:
        """Wait for pending works, or fail them on all ranks if an exception is being handled."""
        if _is_exiting or os.getpid() != self._process:
            return
        pending = [each for each in list(self._pending) if not each.is_done()]
        if pending and sys.exc_info()[0] is not None:
            self.abort("the group was destroyed after an exception")
        _library.ddprun_close_group(self._handle)
        self.futures.end()
        self.references.clear()

    def abort(self, reason: str) -> None:
        _library.ddprun_abort_group(self._handle, reason.encode())

    def start(self, call: _Call, tensors: List[torch.Tensor]) -> _Started:
        ended = []  # their tensors may have finalizers
        with self._lock:
            handle = _library.ddprun_start(self._handle, call)
            if not handle:
                raise ValueError("ddprun: " + _last_error())
            started = _Started(handle, tensors)
            while self._pending and self._pending[0].is_done():
                ended.append(self._pending.popleft())
            self._pending.append(started)
        return started

    def refer_to(self, work: _Work) -> None:
        if not _NEEDS_REFERENCES:
            return
        self.references[id(work)] = work
        if len(self.references) > _REFERENCES_MAX:
            self.references.popitem(last=False)


_groups: "weakref.WeakSet[_Group]" = weakref.WeakSet()
_is_exiting = False


@atexit.register
def _leave_groups() -> None:
    """End the threads, but not the groups: the other ranks learn of this process's end by its
    death, so that they do not end before it if an exception ends it."""
    global _is_exiting
    _is_exiting = True
    for group in list(_groups):
        group.futures.end()


# Tensors


def _memory(tensor: torch.Tensor):
    if tensor.device.type != "cpu":
        raise ValueError(
            f"ddprun: a tensor is on {tensor.device}, and this backend is for CPUs; create another "
            'group for it, such as torch.distributed.new_group(backend="nccl")'
        )
    count = tensor.numel()
    return tensor.data_ptr(), count if tensor.dtype in _TYPES else count * tensor.element_size()


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the memory has the elements in order, aligned, and without lazy changes."""
    return (
        tensor.is_contiguous()
        and tensor.data_ptr() % tensor.element_size() == 0
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor if it is plain, otherwise a copy."""
    tensor = tensor.detach()
    if _is_plain(tensor):
        return tensor
    return tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy without autograd, in any thread."""
    with torch.inference_mode() if target.is_inference() else torch.no_grad():
        target.copy_(source.view(target.shape))


def _copies(copy: torch.Tensor, target: torch.Tensor) -> List[Callable[[], None]]:
    """Return the copy that follows a collective which has used `copy` in place of `target`."""
    return [] if copy.data_ptr() == target.data_ptr() else [lambda: _copy(target, copy)]


def _join(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _split(flat: torch.Tensor, outputs: Sequence[torch.Tensor]) -> List[Callable[[], None]]:
    """Return the copies of the parts of `flat`."""

    def copy() -> None:
        for part, output in zip(flat.chunk(len(outputs)), outputs):
            _copy(output, part)

    return [copy] if outputs else []


class _ProcessGroup(ProcessGroup):
    """A group that calls Gloo where the library has no equivalent.

    The choice depends only on what is equal on all ranks.
    """

    def __init__(
        self, store: Any, rank: int, size: int, ranks: List[int], timeout: timedelta, name: str
    ):
        super().__init__(rank, size)
        nodes = []
        if ranks:
            store.set(f"node{rank}", os.environ.get("GROUP_RANK", "0"))
            nodes = [int(_get(store, f"node{other}", ranks[other])) for other in range(size)]
        # Before Gloo, because it names missing ranks.
        self._group = _Group(name, ranks, nodes, timeout)
        self._gloo = ProcessGroupGloo(store, rank, size, timeout)
        if hasattr(self, "_register_backend"):
            kind = ProcessGroup.BackendType.GLOO
            self._register_backend(torch.device("cpu"), kind, self._gloo)
            if hasattr(self, "_set_default_backend"):
                self._set_default_backend(kind)
        weakref.finalize(self, self._group.close).atexit = False

    def getBackendName(self) -> str:
        return "ddprun"

    name = _get_backend_name = getBackendName

    def shutdown(self) -> None:
        self._group.close()

    def abort(self) -> None:
        self._group.abort("abort() was called")

    def _start(
        self,
        collective: int,
        source: Optional[torch.Tensor],
        target: Optional[torch.Tensor],
        reduction: int = 0,
        root: int = 0,
    ) -> _Started:
        """Start a collective with plain tensors."""
        call = _Call(collective, _BYTES, reduction, root)
        tensors = [tensor for tensor in (source, target) if tensor is not None]
        if tensors:
            call.type = _TYPES.get(tensors[0].dtype, _BYTES)
            if tensors[-1].dtype != tensors[0].dtype:
                raise ValueError(
                    f"ddprun: the input has {tensors[0].dtype}, but the output {tensors[-1].dtype}"
                )
        if source is not None:
            call.input, call.input_elements = _memory(source)
        if target is not None:
            call.output, call.output_elements = _memory(target)
        return self._group.start(call, tensors)

    def _in_place(self, collective: int, tensor: torch.Tensor, result, **arguments: int) -> _Work:
        plain = _plain(tensor)
        started = self._start(collective, None, plain, **arguments)
        return _Work(self._group, [started], _copies(plain, tensor), result)

    def _into(self, collective, source, target, result, **arguments) -> _Work:
        plain = target.detach()
        if not _is_plain(plain):
            plain = torch.empty_like(plain, memory_format=torch.contiguous_format)
        started = self._start(collective, _plain(source), plain, **arguments)
        return _Work(self._group, [started], _copies(plain, target), result)

    def _together(self, works: List[_Work], outputs: List[torch.Tensor]) -> _Work:
        started = [each for work in works for each in work._started]
        copies = [copy for work in works for copy in work._copies]
        for work in works:
            self._group.references.pop(id(work), None)
        return _Work(self._group, started, copies, outputs)

    @staticmethod
    def _reduction(tensors: List[torch.Tensor], opts: Any) -> Optional[int]:
        """Return None where Gloo is needed."""
        if any(each.dtype not in _TYPES or each.layout != torch.strided for each in tensors):
            return None
        return _REDUCTIONS.get(getattr(opts.reduceOp, "op", opts.reduceOp))

    # Collectives of torch.distributed

    def allreduce(self, tensors, opts=None):
        opts = opts or dist.AllreduceOptions()
        reduction = self._reduction(tensors, opts)
        if reduction is None or len(tensors) != 1:
            return self._gloo.allreduce(tensors, opts)
        return self._in_place(_ALL_REDUCE, tensors[0], tensors, reduction=reduction)

    def reduce(self, tensors, opts):
        reduction = self._reduction(tensors, opts)
        if reduction is None or len(tensors) != 1:
            return self._gloo.reduce(tensors, opts)
        return self._in_place(_REDUCE, tensors[0], tensors, reduction=reduction, root=opts.rootRank)

    def broadcast(self, tensors, opts):
        if len(tensors) != 1 or tensors[0].layout != torch.strided:
            return self._gloo.broadcast(tensors, opts)
        return self._in_place(_BROADCAST, tensors[0], tensors, root=opts.rootRank)

    def barrier(self, opts=None):
        return _Work(self._group, [self._start(_BARRIER, None, None)], [], [])

    def allgather(self, output_lists, inputs, opts=None):
        outputs, source = output_lists[0], inputs[0]
        self._check_parts("all_gather", outputs, source)
        flat = source.detach().new_empty(self.size() * source.numel())
        started = self._start(_ALL_GATHER, _plain(source), flat)
        return _Work(self._group, [started], _split(flat, outputs), outputs)

    def gather(self, output_lists, inputs, opts):
        source, is_root = inputs[0], opts.rootRank == self.rank()
        outputs = output_lists[0] if is_root else []
        if is_root:
            self._check_parts("gather", outputs, source)
        flat = source.detach().new_empty(self.size() * source.numel() if is_root else 0)
        started = self._start(_GATHER, _plain(source), flat, root=opts.rootRank)
        return _Work(self._group, [started], _split(flat, outputs), outputs)

    def scatter(self, outputs, input_lists, opts):
        target, is_root = outputs[0], opts.rootRank == self.rank()
        source = target.detach().new_empty(0)
        if is_root:
            self._check_parts("scatter", input_lists[0], target)
            source = _join(input_lists[0])
        return self._into(_SCATTER, source, target, outputs, root=opts.rootRank)

    def reduce_scatter(self, outputs, input_lists, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        target, sources = outputs[0], input_lists[0]
        reduction = self._reduction([target], opts)
        if reduction is None:
            return self._gloo.reduce_scatter(outputs, input_lists, opts)
        self._check_parts("reduce_scatter", sources, target)
        return self._into(_REDUCE_SCATTER, _join(sources), target, outputs, reduction=reduction)

    def _allgather_base(self, output, source, opts=None):
        return self._into(_ALL_GATHER, source, output, [output])

    def _reduce_scatter_base(self, output, source, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        reduction = self._reduction([output], opts)
        if reduction is None:
            return self._gloo._reduce_scatter_base(output, source, opts)
        return self._into(_REDUCE_SCATTER, source, output, [output], reduction=reduction)

    def allgather_into_tensor_coalesced(self, outputs, sources, opts=None):
        works = [self._allgather_base(*pair) for pair in zip(outputs, sources)]
        return self._together(works, outputs)

    def reduce_scatter_tensor_coalesced(self, outputs, sources, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        if self._reduction(outputs, opts) is None:
            names = ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced")
            name = next(name for name in names if hasattr(self._gloo, name))
            return getattr(self._gloo, name)(outputs, sources, opts)
        works = [self._reduce_scatter_base(*pair, opts) for pair in zip(outputs, sources)]
        return self._together(works, outputs)

    def allreduce_coalesced(self, tensors, opts):
        if self._reduction(tensors, opts) is None:
            return self._gloo.allreduce_coalesced(tensors, opts)
        works = [self.allreduce([tensor], opts) for tensor in tensors]
        return self._together(works, tensors)

    def alltoall_base(self, output, source, *arguments, **options):
        if output.numel() > 0 and output.data_ptr() == source.data_ptr():
            # Gloo would overwrite data that it has not sent.
            raise ValueError(
                "ddprun: all_to_all_single: input and output are the same memory; use another tensor"
            )
        return self._gloo.alltoall_base(output, source, *arguments, **options)

    # Newer names
    all_to_all_single = alltoall_base
    all_gather_single = _allgather_base
    reduce_scatter_single = _reduce_scatter_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _check_parts(self, name: str, parts: List[torch.Tensor], like: torch.Tensor) -> None:
        if len(parts) != self.size():
            raise ValueError(
                f"ddprun: {name}: the list has {len(parts)} tensors; {self.size()} are needed, "
                "one for each rank"
            )
        for rank, part in enumerate(parts):
            if part.numel() != like.numel() or part.dtype != like.dtype:
                raise ValueError(
                    f"ddprun: {name}: the tensor of rank {rank} has {part.numel()} x {part.dtype}; "
                    f"{like.numel()} x {like.dtype} are needed"
                )


def _forward_to_gloo(name: str) -> None:
    """Let Gloo implement a call. PyTorch would call it, too, but without releasing the interpreter,
    for which a thread of Gloo may wait."""

    def call(self: _ProcessGroup, *arguments: Any, **options: Any) -> Work:
        return getattr(self._gloo, name)(*arguments, **options)

    if hasattr(ProcessGroupGloo, name):
        setattr(_ProcessGroup, name, call)


for each in (
    "send",
    "recv",
    "recv_anysource",
    "alltoall",
    "allgather_coalesced",
    "gather_single",
    "monitored_barrier",
):
    _forward_to_gloo(each)


def _get(store: Any, key: str, rank: int) -> str:
    """Wait for a key that the worker `rank` sets."""
    try:
        return store.get(key).decode()
    except RuntimeError as error:
        raise _Error(f"ddprun: rank {rank} did not come to the group: {error}") from None


# Groups of all workers that this process has created, by name: as many as on the other ranks.
_created: Dict[str, int] = {}


def _number(store: Any, name: str, rank: int, ranks: List[int]) -> str:
    """Return the number of groups of this name so far.

    Those of some workers may have had other members: the first rank tells each other rank, which
    deletes what it has read.
    """
    if not ranks:
        _created[name] = _created.get(name, 0) + 1
        return str(_created[name])
    if rank != 0:
        number = _get(store, f"ddprun/{rank}", ranks[0])
        store.delete_key(f"ddprun/{rank}")
        return number
    number = str(store.add("ddprun/groups", 1))
    for other in range(1, len(ranks)):
        store.set(f"ddprun/{other}", number)
    return number


def _create(options: Any, _: Any = None) -> _ProcessGroup:
    ranks = list(options.global_ranks_in_group)
    rank, size = options.group_rank, options.group_size
    own = ranks[rank] if ranks else rank
    launched = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if launched[0] != str(own) or (not ranks and launched[1] != str(size)):
        raise ValueError(
            f"ddprun: this process is rank {own}, but RANK is "
            f"{os.environ.get('RANK', 'not set')} and WORLD_SIZE is "
            f"{os.environ.get('WORLD_SIZE', 'not set')}; start the program with ddprun or "
            "torchrun, or set both"
        )
    if ranks != sorted(ranks):
        raise ValueError(f"ddprun: the ranks {ranks} of a group are not ascending; sort them")
    number = _number(options.store, options.group_id, rank, ranks)
    name = options.group_id if number == "1" else f"{options.group_id}.{number}"
    store = dist.PrefixStore(f"ddprun{number}", options.store)
    return _ProcessGroup(store, rank, size, ranks, options.timeout, "torch/" + name)


def _register() -> None:
    arguments = {"extended_api": True}
    if hasattr(dist.Backend, "default_device_backend_map"):
        arguments["devices"] = ["cpu"]
    dist.Backend.register_backend("ddprun", _create, **arguments)


_register()
