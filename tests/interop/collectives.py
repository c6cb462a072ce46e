"""All collectives, with each operation and on subgroups, compared with expected results."""
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from backend import BACKEND

dist.init_process_group(BACKEND)
rank, world_size = dist.get_rank(), dist.get_world_size()
RANKS = range(world_size)


def of(rank, type=torch.float32):
    """Input of this rank."""
    return torch.tensor([rank + 1, 2 * rank + 1, 7 - rank], dtype=type)


def reduced(function, type):
    """The same function over the inputs of all ranks, without communication."""
    result = of(0, type)
    for other in RANKS[1:]:
        result = function(result, of(other, type))
    return result


OPERATIONS = {
    ReduceOp.SUM: torch.add,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
}
BIT_OPERATIONS = {
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}
TYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8]
try:
    dist.all_reduce(of(rank, torch.float16))
    TYPES.append(torch.float16)
except RuntimeError as error:  # Gloo as Debian's PyTorch 2.14 has it
    assert "Invalid scalar type" in str(error)
    print("skipped: this PyTorch's Gloo does not reduce float16")


def all_reduce_and_reduce():
    for type in TYPES:
        for operation, function in OPERATIONS.items():
            tensor = of(rank, type)
            dist.all_reduce(tensor, operation)
            assert torch.equal(tensor, reduced(function, type)), (type, operation)
            tensor = of(rank, type)
            dist.reduce(tensor, world_size - 1, operation)
            if rank == world_size - 1:
                assert torch.equal(tensor, reduced(function, type)), (type, operation)
    for operation, function in BIT_OPERATIONS.items():
        tensor = of(rank, torch.int32)
        dist.all_reduce(tensor, operation)
        assert torch.equal(tensor, reduced(function, torch.int32)), operation


def one_to_all():
    for root in RANKS:
        tensor = of(rank)
        dist.broadcast(tensor, root)
        assert torch.equal(tensor, of(root))
        part = torch.empty(3)
        dist.scatter(part, [of(other) for other in RANKS] if rank == root else None, src=root)
        assert torch.equal(part, of(rank))
        objects = [{"from": root, "text": "ü" * root}] if rank == root else [None]
        dist.broadcast_object_list(objects, src=root)
        assert objects == [{"from": root, "text": "ü" * root}]


def all_to_one():
    for root in RANKS:
        parts = [torch.empty(3) for _ in RANKS] if rank == root else None
        dist.gather(of(rank), parts, dst=root)
        if rank == root:
            assert torch.equal(torch.stack(parts), torch.stack([of(other) for other in RANKS]))


def all_to_all():
    parts = [torch.empty(3) for _ in RANKS]
    dist.all_gather(parts, of(rank))
    assert torch.equal(torch.stack(parts), torch.stack([of(other) for other in RANKS]))
    objects = [None] * world_size
    dist.all_gather_object(objects, "x" * rank)
    assert objects == ["x" * other for other in RANKS]
    # Rank r sends r * world_size + s to rank s.
    received = torch.empty(world_size, dtype=torch.int64)
    dist.all_to_all_single(received, rank * world_size + torch.arange(world_size))
    assert received.tolist() == [other * world_size + rank for other in RANKS]


def point_to_point():
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    sending = dist.isend(of(rank), right)
    received = torch.empty(3)
    dist.recv(received, left)
    sending.wait()
    assert torch.equal(received, of(left))
    if rank == 0:
        senders = [dist.recv(received) for _ in RANKS[1:]]  # from any
        assert sorted(senders) == list(RANKS[1:])
    else:
        dist.send(of(rank), 0)


def asynchronous():
    tensors = [of(rank) * factor for factor in range(1, 20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for factor, tensor in enumerate(tensors, start=1):
        assert torch.equal(tensor, reduced(torch.add, torch.float32) * factor)


def subgroups():
    first_two = dist.new_group([0, 1])
    reverse = dist.new_group(list(reversed(RANKS)))
    tensor = torch.tensor([float(rank)])
    if rank in (0, 1):
        dist.all_reduce(tensor, group=first_two)
        assert tensor.item() == 1
        dist.barrier(group=first_two)
    else:
        assert dist.get_rank(first_two) == -1
    ranks = torch.tensor([rank])
    dist.all_reduce(ranks, ReduceOp.MAX, group=reverse)
    assert ranks.item() == world_size - 1
    for _ in range(20):  # each takes new keys in the store
        dist.destroy_process_group(dist.new_group(list(RANKS)))


for check in (all_reduce_and_reduce, one_to_all, all_to_one, all_to_all, point_to_point,
              asynchronous, subgroups):
    check()
    dist.barrier()
if BACKEND == "gloo":
    dist.monitored_barrier()
dist.barrier()
dist.destroy_process_group()
print("passed")
