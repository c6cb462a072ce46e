"""A Slurm cluster on this machine: a real slurmctld, and a slurmd for each node, with its own host
name, address and files. All processes are in namespaces that end with the test; an installed Slurm
is neither used nor changed."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LOOK_AGAIN = 0.05  # seconds
TIME_LIMIT = 100
INSIDE = "DDPRUN_SLURM_TEST"
PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "salloc", "scontrol", "unshare", "ip")
PATH = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
NAMESPACES = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child",
              "--mount-proc"]

# A requeued job waits until its credentials have expired.
CONFIG = """
ClusterName=test
SlurmctldHost=login
SlurmUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
MailProg=/bin/true
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES
"""


def missing():
    """Returns why no cluster can be started here; empty if one can."""
    for program in PROGRAMS:
        if not shutil.which(program, path=PATH):
            return f"there is no {program} (Debian's slurmctld, slurmd and slurm-client)"
    if os.geteuid() != 0:
        return "slurmd needs root"
    if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode != 0:
        return "unshare is refused here"
    return ""


def enter_namespaces():
    """Starts this program again in its own namespaces. Their first process reaps orphans, and all
    others end with it."""
    if INSIDE in os.environ:
        return
    os.environ[INSIDE] = "1"
    os.environ["PATH"] = PATH
    os.execvp(NAMESPACES[0], [*NAMESPACES, "/bin/sh", "-c", '"$@"; exit "$?"', "sh",
                              sys.executable, *sys.argv])


class Command:
    """A program started on the cluster. Its output goes to a file."""

    def __init__(self, arguments, folder, environment):
        self.arguments = arguments
        with tempfile.NamedTemporaryFile(dir=folder, prefix="output.", delete=False) as output:
            self.output = pathlib.Path(output.name)
            self.process = subprocess.Popen(
                arguments, cwd=folder, env={**os.environ, **environment},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def text(self):
        return self.output.read_text(errors="replace")

    def wait_for(self, pattern):
        return wait_until(lambda: re.search(pattern, self.text()), self.text)

    def wait(self):
        """Returns the exit code."""
        wait_until(lambda: self.process.poll() is not None, self.text)
        return self.process.returncode


def wait_until(condition, describe):
    """Returns the result of the condition once it is true."""
    deadline = time.monotonic() + TIME_LIMIT
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing came of it in {TIME_LIMIT} s:\n{describe()}")
        time.sleep(LOOK_AGAIN)
    return found


class SlurmCluster:
    """Nodes gpu1, gpu2, ...; the test itself runs on their login node."""

    def __init__(self, folder, node_count):
        self.folder = pathlib.Path(folder)
        self.nodes = [f"gpu{number + 1}" for number in range(node_count)]
        self.daemons = {}
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        self.make_network()
        lines = [f"NodeName={node} NodeAddr={self.address(node)} Port={7000 + index} CPUs=64"
                 for index, node in enumerate(self.nodes)]
        (self.folder / "slurm.conf").write_text(
            CONFIG.format(folder=folder, nodes="\n".join(lines)))
        (self.folder / "state").mkdir()
        self.start_daemon("login", ["slurmctld", "-D", "-i"])
        for node in self.nodes:
            self.start_node(node)
        wait_until(lambda: self.count("idle") == node_count, self.describe)

    def make_network(self):
        """The nodes share the loopback device, each with an address on it. Slurm does not look up
        addresses of 127.0.0.0/8."""
        run(["hostname", "login"])
        run(["ip", "link", "set", "lo", "up"])
        hosts = "127.0.0.1 localhost\n"
        for name in ["login", *self.nodes]:
            run(["ip", "address", "add", self.address(name) + "/24", "dev", "lo"])
            hosts += f"{self.address(name)} {name}\n"
        (self.folder / "hosts").write_text(hosts)
        run(["mount", "--bind", str(self.folder / "hosts"), "/etc/hosts"])

    def address(self, name):
        return f"10.77.0.{self.nodes.index(name) + 2 if name in self.nodes else 1}"

    def start_node(self, node):
        """With its own host name, which also marks its processes."""
        self.start_daemon(node, ["unshare", "--uts", "/bin/sh", "-c",
                                 'hostname "$0" && exec slurmd -D -N "$0"', node])

    def start_daemon(self, name, command):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log)

    def kill_node(self, node):
        """Like a loss of power."""
        place = os.readlink(f"/proc/{self.daemons[node].pid}/ns/uts")
        while pids := [pid for pid in processes() if namespace_of(pid) == place]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.daemons[node].wait(TIME_LIMIT)

    def count(self, state):
        done = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%T"],
                              capture_output=True, text=True)
        return done.stdout.split().count(state)

    def describe(self):
        logs = ""
        for log in sorted(self.folder.glob("*.log")):
            logs += "".join(f"{log.stem}: {line}\n"
                            for line in log.read_text(errors="replace").splitlines()[-30:])
        return run(["sinfo", "--Node"]) + logs

    def job(self, number):
        """Returns scontrol's data of the job, by name."""
        text = run(["scontrol", "--oneliner", "show", "job", str(number)])
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def close(self):
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            daemon.wait(TIME_LIMIT)

    def left_over(self):
        """Returns command lines of processes that belong neither to Slurm's daemons nor to the
        test."""
        needed = {1, os.getpid(), *(daemon.pid for daemon in self.daemons.values())}
        found = []
        for pid in processes():
            with contextlib.suppress(OSError):
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
                if pid not in needed and command and "slurm" not in command.split("\0")[0]:
                    found.append(command.replace("\0", " ").strip())
        return found


def processes():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def namespace_of(pid):
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/uts")
    return None


def run(arguments, **more):
    """Returns its output; it must succeed."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT, **more)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}")
    return done.stdout
