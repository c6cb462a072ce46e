"""Backend "ddprun" of torch.distributed, for tensors in the memory of CPUs.

Importing this module registers it: torch.distributed.init_process_group("ddprun"). Collectives of
one node run in shared memory, and those of several nodes over TCP. Other calls, such as messages
and bitwise reductions, are Gloo's.
"""

import collections
import ctypes
import os
import queue
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo, ReduceOp, Work

__all__: List[str] = []

# Enumerators of the library: Collective, DataType, ReduceOp, Errc.
_ALL_REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER = range(4)
_REDUCE, _GATHER, _SCATTER, _ALL_TO_ALL = range(4, 8)
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
_USAGE = 0

# Before PyTorch 2.8, a Work of Python that only C++ code refers to loses its methods, and its wait
# blocks for ever. C++ code waits for one of the last works.
_WORKS_DIE = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8)

_Error = getattr(dist, "DistBackendError", RuntimeError)


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
        ("last_code", ctypes.c_int32, []),
        ("create_group", handle, [text, ints, ints, ctypes.c_int32, ctypes.c_double]),
        ("stop_group", None, [handle]),
        ("close_group", None, [handle]),
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


def _error() -> Exception:
    """Return the library's last failure in this thread."""
    message = _library.ddprun_last_error().decode("utf-8", "replace")
    return ValueError(message) if _library.ddprun_last_code() == _USAGE else _Error(message)


class _Work(Work):
    """A collective that has started."""

    def __init__(
        self,
        futures: "_Futures",
        handle: int,
        tensors: List[torch.Tensor],
        result: List[torch.Tensor],
        finish: Optional[Callable[[], None]],
    ):
        super().__init__()
        self._futures, self._handle = futures, handle
        self._tensors = tensors  # until the library no longer uses their memory
        self._result, self._finish = result, finish
        self._lock = threading.Lock()

    def __del__(self, delete: Any = _library.ddprun_delete_work) -> None:
        delete(self._handle)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if not _library.ddprun_wait(self._handle, timeout.total_seconds()):
            raise _error()
        if self._finish is not None:
            with self._lock:
                if self._finish is not None:
                    self._finish()
                    self._finish = None
        self._tensors = []
        if _WORKS_DIE:
            self._result = []
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not _library.ddprun_is_done(self._handle):
            return False
        self.exception()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[Exception]:
        """Return the failure of a collective that has ended."""
        try:
            self.wait()
        except (ValueError, RuntimeError) as error:
            return error
        return None

    def result(self) -> List[torch.Tensor]:
        return self._result

    def get_future(self) -> "torch.futures.Future[List[torch.Tensor]]":
        ended: "torch.futures.Future[None]" = torch.futures.Future()
        result = self._result
        # A callback that raises is the only way to fail a future from Python.
        future = ended.then(lambda _: self.wait() and result)
        self._futures.complete(self, ended)
        return future


class _Futures:
    """Completes the futures of a group, in the order of its works, by a thread of its own."""

    def __init__(self) -> None:
        self._waiting: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def complete(self, work: _Work, future: "torch.futures.Future[None]") -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ddprun", daemon=True)
            self._thread.start()
        self._waiting.put((work, future))

    def end(self) -> None:
        """Blocks until the works have ended. At its exit, an interpreter aborts if a thread is in
        PyTorch."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        for work, future in iter(self._waiting.get, None):
            work.exception()
            future.set_result(None)
            del work, future


def _close(handle: int, futures: _Futures, process: int) -> None:
    if os.getpid() == process:
        _library.ddprun_stop_group(handle)
        futures.end()
    _library.ddprun_close_group(handle)


class _ProcessGroup(ProcessGroup):
    """A group that calls Gloo where the library has no equivalent.

    The choice depends only on what is equal on all ranks.
    """

    def __init__(self, store: Any, rank: int, ranks: List[int], timeout: timedelta, name: str):
        size = len(ranks) or int(os.environ.get("WORLD_SIZE", 1))
        super().__init__(rank, size)
        self._gloo = ProcessGroupGloo(store, rank, size, timeout)
        if hasattr(self, "_register_backend"):
            kind = ProcessGroup.BackendType.GLOO
            self._register_backend(torch.device("cpu"), kind, self._gloo)
            if hasattr(self, "_set_default_backend"):
                self._set_default_backend(kind)
        nodes = []
        if ranks:
            store.set(f"node{rank}", os.environ.get("GROUP_RANK", "0"))
            nodes = [int(store.get(f"node{other}")) for other in range(size)]
        count, ints = len(ranks), ctypes.c_int32 * len(ranks)
        handle = _library.ddprun_create_group(
            name.encode(), ints(*ranks), ints(*nodes), count, timeout.total_seconds()
        )
        if not handle:
            raise _error()
        self._handle = handle
        self._call_lock = threading.Lock()
        self._pending: Deque[_Work] = collections.deque()
        self._recent: Deque[_Work] = collections.deque(maxlen=32 if _WORKS_DIE else 0)
        self._futures = _Futures()
        self._close = weakref.finalize(self, _close, handle, self._futures, os.getpid())

    def getBackendName(self) -> str:
        return "ddprun"

    name = _get_backend_name = getBackendName

    def shutdown(self) -> None:
        with self._call_lock:
            self._close()
            self._pending.clear()
            self._recent.clear()

    def abort(self) -> None:
        if self._close.alive:
            _library.ddprun_abort_group(self._handle, b"abort() was called")

    def _start(
        self,
        collective: int,
        source: Optional[torch.Tensor],
        target: Optional[torch.Tensor],
        result: List[torch.Tensor],
        reduction: int = 0,
        root: int = 0,
        finish: Optional[Callable[[], None]] = None,
    ) -> _Work:
        """Start a collective with contiguous tensors."""
        call = _Call(collective, _BYTES, reduction, root)
        tensors = [tensor for tensor in (source, target) if tensor is not None]
        if tensors:
            kind = _TYPES.get(tensors[0].dtype)
            call.type = _BYTES if kind is None else kind
        if source is not None:
            call.input, call.input_elements = self._memory(source)
        if target is not None:
            call.output, call.output_elements = self._memory(target)
        with self._call_lock:
            if not self._close.alive:
                raise _Error("ddprun: the process group has been destroyed")
            handle = _library.ddprun_start(self._handle, call)
            if not handle:
                raise _error()
            work = _Work(self._futures, handle, tensors, result, finish)
            while self._pending and _library.ddprun_is_done(self._pending[0]._handle):
                self._pending.popleft()
            self._pending.append(work)
            self._recent.append(work)
        return work

    @staticmethod
    def _memory(tensor: torch.Tensor):
        if tensor.device.type != "cpu":
            raise ValueError(
                f"ddprun: a tensor is on {tensor.device}, and this backend is for CPUs; create "
                'another group for it, such as torch.distributed.new_group(backend="nccl")'
            )
        count = tensor.numel()
        return tensor.data_ptr(), count if tensor.dtype in _TYPES else count * tensor.element_size()

    def _in_place(self, collective: int, tensor: torch.Tensor, result, **arguments: int) -> _Work:
        if tensor.is_contiguous():
            return self._start(collective, None, tensor, result, **arguments)
        copy = tensor.contiguous()
        return self._start(
            collective, None, copy, result, finish=lambda: tensor.copy_(copy), **arguments
        )

    def _into(self, collective, source, target, result, **arguments) -> _Work:
        source = source.contiguous()
        if target.is_contiguous():
            return self._start(collective, source, target, result, **arguments)
        copy = torch.empty_like(target, memory_format=torch.contiguous_format)
        return self._start(
            collective, source, copy, result, finish=lambda: target.copy_(copy), **arguments
        )

    @staticmethod
    def _reduction(tensor: torch.Tensor, opts: Any) -> Optional[int]:
        """Return None where Gloo is needed."""
        if tensor.dtype not in _TYPES or tensor.layout != torch.strided:
            return None
        return _REDUCTIONS.get(getattr(opts.reduceOp, "op", opts.reduceOp))

    # Collectives of torch.distributed

    def allreduce(self, tensors, opts=None):
        opts = opts or dist.AllreduceOptions()
        reduction = self._reduction(tensors[0], opts)
        if reduction is None or len(tensors) != 1:
            return self._gloo.allreduce(tensors, opts)
        return self._in_place(_ALL_REDUCE, tensors[0], tensors, reduction=reduction)

    def reduce(self, tensors, opts):
        reduction = self._reduction(tensors[0], opts)
        if reduction is None or len(tensors) != 1:
            return self._gloo.reduce(tensors, opts)
        return self._in_place(_REDUCE, tensors[0], tensors, reduction=reduction, root=opts.rootRank)

    def broadcast(self, tensors, opts):
        if len(tensors) != 1 or tensors[0].layout != torch.strided:
            return self._gloo.broadcast(tensors, opts)
        return self._in_place(_BROADCAST, tensors[0], tensors, root=opts.rootRank)

    def barrier(self, opts=None):
        return self._start(_BARRIER, None, None, [])

    def allgather(self, output_lists, inputs, opts=None):
        outputs, source = output_lists[0], inputs[0]
        self._check_parts("all_gather", outputs, source)
        flat = source.new_empty(self.size() * source.numel())
        return self._into(_ALL_GATHER, source, flat, outputs, finish=lambda: _split(flat, outputs))

    def gather(self, output_lists, inputs, opts):
        source, is_root = inputs[0], opts.rootRank == self.rank()
        outputs = output_lists[0] if is_root else []
        if is_root:
            self._check_parts("gather", outputs, source)
        flat = source.new_empty(self.size() * source.numel() if is_root else 0)
        return self._into(
            _GATHER,
            source,
            flat,
            outputs,
            root=opts.rootRank,
            finish=lambda: _split(flat, outputs),
        )

    def scatter(self, outputs, input_lists, opts):
        target, is_root = outputs[0], opts.rootRank == self.rank()
        source = target.new_empty(0)
        if is_root:
            self._check_parts("scatter", input_lists[0], target)
            source = _join(input_lists[0])
        return self._into(_SCATTER, source, target, outputs, root=opts.rootRank)

    def reduce_scatter(self, outputs, input_lists, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        target, sources = outputs[0], input_lists[0]
        reduction = self._reduction(target, opts)
        if reduction is None:
            return self._gloo.reduce_scatter(outputs, input_lists, opts)
        self._check_parts("reduce_scatter", sources, target)
        return self._into(_REDUCE_SCATTER, _join(sources), target, outputs, reduction=reduction)

    def _allgather_base(self, output, source, opts=None):
        return self._into(_ALL_GATHER, source, output, [output])

    def _reduce_scatter_base(self, output, source, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        reduction = self._reduction(output, opts)
        if reduction is None:
            return self._gloo._reduce_scatter_base(output, source, opts)
        return self._into(_REDUCE_SCATTER, source, output, [output], reduction=reduction)

    def alltoall_base(self, output, source, output_sizes, input_sizes, opts=None):
        if output_sizes or input_sizes:
            return self._gloo.alltoall_base(
                output, source, output_sizes, input_sizes, opts or dist.AllToAllOptions()
            )
        return self._into(_ALL_TO_ALL, source, output, [output])

    def allgather_into_tensor_coalesced(self, outputs, sources, opts=None):
        works = [self._allgather_base(*pair) for pair in zip(outputs, sources)]
        return self._joint(works, outputs)

    def reduce_scatter_tensor_coalesced(self, outputs, sources, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        if self._reduction(outputs[0], opts) is None:
            return self._gloo.reduce_scatter_tensor_coalesced(outputs, sources, opts)
        works = [self._reduce_scatter_base(*pair, opts) for pair in zip(outputs, sources)]
        return self._joint(works, outputs)

    def allreduce_coalesced(self, tensors, opts):
        if any(self._reduction(tensor, opts) is None for tensor in tensors):
            return self._gloo.allreduce_coalesced(tensors, opts)
        works = [self.allreduce([tensor], opts) for tensor in tensors]
        return self._joint(works, tensors)

    # Names since PyTorch 2.13
    all_gather_single = _allgather_base
    reduce_scatter_single = _reduce_scatter_base
    all_to_all_single = alltoall_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _joint(self, works: List[_Work], outputs: List[torch.Tensor]) -> _Work:
        """Return a work that ends with the last of `works`."""
        last = works[-1]

        def finish() -> None:
            for work in works[:-1]:
                work.wait()
            if own_finish is not None:
                own_finish()

        own_finish, last._finish, last._result = last._finish, finish, outputs
        return last

    def _check_parts(self, name: str, parts: List[torch.Tensor], like: torch.Tensor) -> None:
        shape = f"{like.numel()} x {like.dtype}"
        if len(parts) != self.size():
            raise ValueError(
                f"ddprun: {name}: the list has {len(parts)} tensors; {self.size()} are needed, "
                "one for each rank"
            )
        for rank, part in enumerate(parts):
            if part.numel() != like.numel() or part.dtype != like.dtype:
                raise ValueError(
                    f"ddprun: {name}: the tensor of rank {rank} has {part.numel()} x {part.dtype}; "
                    f"{shape} are needed"
                )


def _join(tensors: List[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _split(flat: torch.Tensor, outputs: List[torch.Tensor]) -> None:
    for part, output in zip(flat.chunk(len(outputs)) if outputs else [], outputs):
        output.copy_(part.view(output.shape))


def _forward_to_gloo(name: str) -> None:
    def call(self: _ProcessGroup, *arguments: Any, **options: Any) -> Work:
        return getattr(self._gloo, name)(*arguments, **options)

    setattr(_ProcessGroup, name, call)


if not hasattr(ProcessGroup, "_register_backend"):  # before PyTorch 2.0
    for each in ("send", "recv", "recv_anysource", "alltoall"):
        _forward_to_gloo(each)

# A later group of this name, after the first one was destroyed, has other keys in the store.
_created: Dict[str, int] = {}


def _create(options: Any, _: Any = None) -> _ProcessGroup:
    ranks = list(options.global_ranks_in_group)
    own = ranks[options.group_rank] if ranks else options.group_rank
    expected = str(own), str(options.group_size)
    launched = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if launched[0] != expected[0] or (not ranks and launched[1] != expected[1]):
        raise ValueError(
            f"ddprun: this process is rank {expected[0]}, but RANK is "
            f"{os.environ.get('RANK', 'not set')} and WORLD_SIZE is "
            f"{os.environ.get('WORLD_SIZE', 'not set')}; start the program with ddprun or torchrun"
        )
    count = _created.get(options.group_id, 0)
    _created[options.group_id] = count + 1
    name = f"{options.group_id}.{count}" if count else options.group_id
    store = dist.PrefixStore(f"ddprun{count}", options.store)
    return _ProcessGroup(store, options.group_rank, ranks, options.timeout, "torch/" + name)


def _register() -> None:
    arguments = {"extended_api": True}
    if hasattr(dist.Backend, "default_device_backend_map"):
        arguments["devices"] = ["cpu"]
    dist.Backend.register_backend("ddprun", _create, **arguments)


_register()
