"""Groups of the backend ddprun: layouts and types of tensors, futures, errors, forks, ends."""
import atexit
import gc
import os
import threading
import warnings
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import ddprun.torch

dist.init_process_group("ddprun")
rank, world_size = dist.get_rank(), dist.get_world_size()
RANKS = range(world_size)


def raised(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (ValueError, RuntimeError) as error:
        return error
    raise AssertionError("no error")


def any_layout():
    tensor = torch.full((4, 6), rank + 1.0)
    columns = tensor[:, ::2] if rank == 0 else tensor[:, :3].contiguous()
    dist.all_reduce(columns)
    assert torch.equal(columns, torch.full((4, 3), float(sum(RANKS) + world_size)))
    if rank == 0:  # and no other column
        assert torch.equal(tensor[:, 1::2], torch.full((4, 3), 1.0))
    tensor.fill_(rank)
    dist.broadcast(tensor.t(), world_size - 1)
    assert torch.equal(tensor, torch.full((4, 6), world_size - 1.0))
    outputs = [torch.empty(6, 4).t() for _ in RANKS]
    dist.all_gather(outputs, torch.full((6, 4), float(rank)).t())
    assert [output[1, 2].item() for output in outputs] == list(RANKS)
    parts = [torch.empty(6, 4).t() for _ in RANKS] if rank == 0 else None
    dist.gather(torch.full((4, 6), float(rank)), parts, dst=0)
    assert rank != 0 or [part[3, 5].item() for part in parts] == list(RANKS)
    part = torch.empty(2, 2).t()
    sources = [torch.full((2, 2), float(to)) for to in RANKS] if rank == 0 else None
    dist.scatter(part, sources, src=0)
    assert torch.equal(part, torch.full((2, 2), float(rank)))
    dist.all_reduce(torch.empty(0))
    unaligned = torch.frombuffer(bytearray(13), dtype=torch.float32, offset=1).fill_(rank)
    dist.all_reduce(unaligned if rank == 0 else torch.full((3,), float(rank)))
    assert rank != 0 or unaligned.tolist() == [sum(RANKS)] * 3
    conjugate = torch.full((3,), complex(1, rank)).conj()
    parts = [torch.empty(3, dtype=torch.complex64) for _ in RANKS] if rank == 0 else None
    dist.gather(conjugate, parts, dst=0)
    if rank == 0:
        assert [part[2].item() for part in parts] == [complex(1, -other) for other in RANKS]


def with_gradients():
    parameter = torch.nn.Parameter(torch.full((2, 3), rank + 1.0).t())
    dist.all_reduce(parameter)
    expected = torch.full((3, 2), float(sum(RANKS) + world_size))
    assert parameter.is_leaf and torch.equal(parameter, expected)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            outputs = [torch.zeros(3) for _ in RANKS]
            source = torch.full((3,), float(rank))
            dist.all_gather(outputs, source, async_op=True).get_future().wait()
            assert [output[0].item() for output in outputs] == list(RANKS)


def any_type():
    for type in (torch.bool, torch.int8, torch.int16, torch.complex64, torch.bfloat16):
        tensor = torch.tensor([rank, 1, 0], dtype=torch.float32).to(type)
        gathered = [torch.empty(3, dtype=type) for _ in RANKS]
        dist.all_gather(gathered, tensor)
        expected = [torch.tensor([other, 1, 0], dtype=torch.float32).to(type) for other in RANKS]
        assert all(torch.equal(a, b) for a, b in zip(gathered, expected)), type
        dist.broadcast(tensor, 1)
        assert torch.equal(tensor, expected[1]), type
    for type in (torch.float16, torch.bfloat16):
        tensor = torch.full((3,), rank + 1, dtype=type)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((3,), sum(RANKS) + world_size, dtype=type))
    tensor = torch.full((3,), rank + 1, dtype=torch.int8)
    dist.all_reduce(tensor)  # by Gloo
    assert tensor.tolist() == [sum(RANKS) + world_size] * 3
    tensor = torch.full((3,), rank + 1.0)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    assert torch.allclose(tensor, torch.full((3,), (sum(RANKS) + world_size) / world_size))


def parts_of_one_tensor():
    source = torch.arange(2.0 * world_size) + rank
    output = torch.empty(2)
    dist.reduce_scatter(output, list(source.chunk(world_size)))
    total = torch.arange(2.0 * world_size) * world_size + sum(RANKS)
    assert torch.equal(output, total.chunk(world_size)[rank])
    if hasattr(dist, "reduce_scatter_tensor"):
        dist.reduce_scatter_tensor(output.zero_(), source)
        assert torch.equal(output, total.chunk(world_size)[rank])
        gathered = torch.empty(2 * world_size)
        dist.all_gather_into_tensor(gathered, output)
        assert torch.equal(gathered, total)
    # Each rank sends 1 element to rank 0 and as many as its number to rank 1.
    uneven = torch.full((1 + rank,), float(rank))
    received = torch.empty(world_size if rank == 0 else sum(RANKS) if rank == 1 else 0)
    sizes = [1] * world_size if rank == 0 else list(RANKS) if rank == 1 else [0] * world_size
    dist.all_to_all_single(received, uneven, sizes, [1, rank] + [0] * (world_size - 2))
    expected = {0: list(RANKS), 1: [other for other in RANKS for _ in range(other)]}
    assert received.tolist() == expected.get(rank, [])
    even = torch.empty(world_size)
    sizes = [1] * world_size if rank == 0 else None  # and the same choice on all ranks
    dist.all_to_all_single(even, torch.full((world_size,), float(rank)), sizes, sizes)
    assert even.tolist() == list(RANKS)
    try:
        dist.all_to_all_single(even, even)
    except ValueError as error:
        assert "input and output are the same memory" in str(error)
    else:
        raise AssertionError("an all_to_all_single in place is accepted")


def futures():
    tensors = [torch.full((1000,), rank + step) for step in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    results = [work.get_future() for work in works]
    for step, result in enumerate(results):
        value = result.wait()[0]
        assert torch.equal(value, torch.full((1000,), sum(RANKS) + world_size * step))
    for work in works:
        assert work.is_completed() and work.is_success() and work.exception() is None
        work.wait()
    output = torch.empty(world_size, 3)
    work = dist.all_gather(list(output), torch.full((3,), float(rank)), async_op=True)
    while not work.is_completed():
        pass
    assert output[:, 0].tolist() == list(RANKS)
    large, small = torch.ones(1 << 20), torch.ones(2)
    first = dist.all_reduce(large, async_op=True).get_future()
    second = first.then(lambda _: dist.all_reduce(small, async_op=True).get_future().wait())
    second.wait()
    assert small.tolist() == [world_size] * 2
    dist.all_reduce(small)
    used = weakref.ref(small)
    del small, second
    gc.collect()
    assert used() is None  # the group keeps no tensor of a collective that has ended


def threads():
    """One after the other, in the same order on all ranks, while others wait."""
    turns = [threading.Event() for _ in range(4)]
    results = [None] * len(turns)

    def call(turn):
        turns[turn].wait()
        tensor = torch.full((2,), rank + turn)
        work = dist.all_reduce(tensor, async_op=True)
        turns[(turn + 1) % len(turns)].set()
        work.wait()
        results[turn] = tensor[0].item()

    workers = [threading.Thread(target=call, args=(turn,)) for turn in range(len(turns))]
    for worker in workers:
        worker.start()
    turns[0].set()
    for worker in workers:
        worker.join()
    assert results == [sum(RANKS) + world_size * turn for turn in range(len(turns))]


def refusals():
    error = raised(dist.all_reduce, torch.empty(3, device="meta"))
    assert isinstance(error, ValueError) and "a tensor is on meta" in str(error), error
    error = raised(dist.all_gather, [torch.empty(3)], torch.empty(3))
    assert "the list has 1 tensors" in str(error), error
    outputs = [torch.empty(3) for _ in RANKS[:-1]] + [torch.empty(4)]
    error = raised(dist.all_gather, outputs, torch.empty(3))
    assert f"the tensor of rank {world_size - 1} has 4 x torch.float32" in str(error), error
    if hasattr(dist, "all_gather_into_tensor"):
        output = torch.empty(3 * world_size, dtype=torch.float16)
        error = raised(dist.all_gather_into_tensor, output, torch.empty(3))
        assert "input has torch.float32, but the output torch.float16" in str(error), error


def forks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()
        os._exit(0)  # Gloo does not survive the rest of the interpreter's end
    assert os.waitpid(child, 0)[1] == 0
    assert sum(len(batch) for batch in DataLoader(list(range(20)), 4, num_workers=1)) == 20
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == world_size


def differences():
    """Fails the group on all ranks."""
    group = dist.new_group(list(RANKS))
    error = raised(dist.all_reduce, torch.empty(3 + (rank == 1)), group=group)
    assert "rank 1" in str(error) and "all_reduce(4 x float32, sum)" in str(error), error
    assert "rank 1" in str(raised(dist.barrier, group=group))


def timeouts():
    group = dist.new_group(list(RANKS))
    if rank != 1:
        work = dist.barrier(group=group, async_op=True)
        error = raised(work.wait, timedelta(seconds=0.5))
        assert "rank(s) 1 had not entered it" in str(error) or "rank 1" in str(error), error
    dist.barrier()
    if rank == 1:
        dist.barrier(group=group)


def ends():
    group = dist.new_group([0, 1])
    if rank < 2:
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        work.wait()
        dist.destroy_process_group(group)
        assert work.is_completed()  # also after the end of the group
        assert work.get_future().wait() is not None
        group.shutdown()  # not called by each PyTorch
        assert "has been destroyed" in str(raised(group.barrier))
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    os.environ["RANK"] = str(rank + 1)
    error = raised(dist.init_process_group, "ddprun", rank=rank, world_size=world_size)
    assert f"this process is rank {rank}, but RANK is {rank + 1}" in str(error), error
    os.environ["RANK"] = str(rank)
    for turn in range(3):
        dist.init_process_group("ddprun", store=dist.PrefixStore(f"turn {turn}", store), rank=rank,
                                world_size=world_size)
        dist.new_group(list(RANKS)[turn:])  # of the same name, with other members
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == world_size
        dist.barrier()
        dist.destroy_process_group()
    dist.init_process_group("ddprun", store=dist.PrefixStore("last", store), rank=rank,
                            world_size=world_size)  # ended by the interpreter
    dist.barrier()


for check in (any_layout, with_gradients, any_type, parts_of_one_tensor, futures, threads,
              refusals, forks, differences, timeouts, ends):
    check()
    if dist.is_initialized():
        dist.barrier()
print("passed")
