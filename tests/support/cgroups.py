"""Positions of processes among the cgroups (version 2) of the machine."""
import pathlib
import re


def cgroup_of(process):
    """Returns the folder of the cgroup of a process id or "self"; None without one."""
    text = pathlib.Path(f"/proc/{process}/cgroup").read_text()
    path = re.search(r"^0::(/.*)$", text, re.MULTILINE)
    mount = re.search(r" (\S+) cgroup2 ", pathlib.Path("/proc/mounts").read_text())
    return pathlib.Path(mount[1] + path[1]) if path and mount else None


def own_cgroup():
    return cgroup_of("self")
