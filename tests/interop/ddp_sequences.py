"""PyTorch 1.13's DDP calls the collectives listed in ddp_sequences/.

The C++ reducer is compared with the same files.
A line is a phase and its collectives, "broadcast 12*8": 12 elements of 8 bytes. The profiler
records elements and the order of calls; concurrent calls can be in any order.
"""
import os
import pathlib
import warnings

# Suppresses advice on find_unused_parameters, with either of PyTorch's loggers.
os.environ.update(TORCH_CPP_LOG_LEVEL="ERROR", GLOG_minloglevel="2")
import torch
import torch.distributed as dist
from torch.autograd.profiler import record_function
from torch.nn.parallel import DistributedDataParallel

FOLDER = pathlib.Path(__file__).parent / "ddp_sequences"
CALLS = {"c10d::allgather_": "all_gather", "c10d::broadcast_": "broadcast",
         "c10d::allreduce_": "all_reduce"}
GLOO = "gloo:"  # what its threads do
PHASE = "phase "


def toy(batch_norm):
    first, second = torch.nn.Linear(10, 10), torch.nn.Linear(10, 5)
    norm = [torch.nn.BatchNorm1d(10)] if batch_norm else []
    return torch.nn.Sequential(first, *norm, torch.nn.ReLU(), second)


def drain():
    """Lets both of Gloo's threads complete their work: over this number of calls a single thread
    takes much longer than the other needs to record its last event."""
    works = [dist.all_reduce(torch.zeros(1), async_op=True) for _ in range(300)]
    for work in works:
        work.wait()


def phases_of(profile):
    """By phase: the names of its calls in order, and (name, elements) of each."""
    events = sorted(profile.function_events, key=lambda event: event.time_range.start)
    phases = [event for event in events if event.name.startswith(PHASE)]
    for phase in phases:
        inside = [event for event in events
                  if phase.time_range.start <= event.time_range.start < phase.time_range.end]
        calls = [CALLS[event.name] for event in inside if event.name in CALLS]
        sizes = sorted((event.name[len(GLOO):], event.input_shapes[0][0]) for event in inside
                       if event.name.startswith(GLOO))
        yield phase.name[len(PHASE):], calls, sizes


def expected(line):
    phase, collectives = line.split(": ")
    pairs = [text.split() for text in collectives.split(", ") if text != "none"]
    sizes = sorted((name, int(size.split("*")[0])) for name, size in pairs)
    return phase, [name for name, _ in pairs], sizes


def run_case(batch_norm, synchronise, options):
    with record_function(PHASE + "construct"):
        model = DistributedDataParallel(toy(batch_norm), **options)
    inputs = torch.randn(4, 10)
    for step, is_synchronised in enumerate(synchronise):
        model.require_backward_grad_sync = is_synchronised  # what no_sync() does
        with record_function(f"{PHASE}step {step} forward"):
            output = model(inputs)
        loss = output.sum()
        with record_function(f"{PHASE}step {step} backward"):
            loss.backward()


def check_case(name, batch_norm=False, synchronise=(True, True, True), **options):
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        run_case(batch_norm, synchronise, options)
        drain()
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    seen = list(phases_of(profile))
    wanted = [expected(line) for line in lines]
    assert seen == wanted, (name, seen, wanted)


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
