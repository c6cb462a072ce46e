"""Hangs in a collective that the last rank does not enter, after calls of other groups."""
import sys
import time

import torch
import torch.distributed as dist


def reduce(elements, group=None):
    dist.all_reduce(torch.ones(elements), group=group)


def again():
    for _ in range(5):
        reduce(4)
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    return None


def first_of_a_group():
    return dist.new_group(group_desc="mesh")


def many_groups():
    last = dist.get_world_size() - 1
    some = [dist.new_group([0, last]) for _ in range(17)]
    everyone = dist.new_group(group_desc="late")
    reduce(1, everyone)
    if dist.get_rank() in (0, last):
        for group in some:
            reduce(2, group)
    return everyone


dist.init_process_group("gloo")
joined = globals()[sys.argv[1]]()
if dist.get_rank() == dist.get_world_size() - 1:
    time.sleep(1000)
reduce(7, joined)
