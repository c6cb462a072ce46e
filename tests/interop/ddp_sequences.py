"""The collectives that PyTorch 1.13's DDP calls are those that ddp_sequences/ lists.

The same files are what the C++ reducer is compared with, so the two are compared with each other.
A line is a phase and its collectives, "broadcast 12*8": 12 elements of 8 bytes. The profiler tells
elements, and the order of calls; what is under way at the same time it may show in any order.
"""
import os
import pathlib
import warnings

# No advice on find_unused_parameters, whichever of the two loggers PyTorch was built with.
os.environ.update(TORCH_CPP_LOG_LEVEL="ERROR", GLOG_minloglevel="2")
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOLDER = pathlib.Path(__file__).parent / "ddp_sequences"
CALLS = {"c10d::allgather_": "all_gather", "c10d::broadcast_": "broadcast",
         "c10d::allreduce_": "all_reduce"}
PREFIX = "gloo:"


def toy(batch_norm):
    first, second = torch.nn.Linear(10, 10), torch.nn.Linear(10, 5)
    norm = [torch.nn.BatchNorm1d(10)] if batch_norm else []
    return torch.nn.Sequential(first, *norm, torch.nn.ReLU(), second)


def record(function):
    """The function's result, the names of its calls in order, and (name, elements) of each."""
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        result = function()
    events = sorted(profile.function_events, key=lambda event: event.time_range.start)
    calls = [CALLS[event.name] for event in events if event.name in CALLS]
    sizes = sorted((event.name[len(PREFIX):], event.input_shapes[0][0]) for event in events
                   if event.name.startswith(PREFIX))
    return result, calls, sizes


def expected(line):
    phase, collectives = line.split(": ")
    pairs = [text.split() for text in collectives.split(", ") if text != "none"]
    sizes = sorted((name, int(size.split("*")[0])) for name, size in pairs)
    return phase, [name for name, _ in pairs], sizes


def check(line, function):
    phase, calls, sizes = expected(line)
    result, seen_calls, seen_sizes = record(function)
    assert (seen_calls, seen_sizes) == (calls, sizes), (phase, seen_calls, seen_sizes)
    return result


def check_case(name, batch_norm=False, synchronise=(True, True, True), **options):
    lines = iter((FOLDER / f"{name}.txt").read_text().splitlines())
    model = check(next(lines), lambda: DistributedDataParallel(toy(batch_norm), **options))
    inputs = torch.randn(4, 10)
    for is_synchronised in synchronise:
        model.require_backward_grad_sync = is_synchronised  # what no_sync() does
        output = check(next(lines), lambda: model(inputs))
        check(next(lines), lambda: output.sum().backward())
    assert next(lines, None) is None


warnings.simplefilter("ignore")
dist.init_process_group("gloo")
if torch.__version__.startswith("1.13"):  # other versions call other collectives
    check_case("plain")
    check_case("batch_norm", batch_norm=True)
    check_case("find_unused", find_unused_parameters=True)
    check_case("static_graph", static_graph=True)
    check_case("accumulation", batch_norm=True, synchronise=(False, True, False, True, False))
dist.barrier()
dist.destroy_process_group()
print("passed")
