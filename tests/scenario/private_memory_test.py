"""Access of a worker to the memory of processes that hold the secret of its run, as one user.

Usage: private_memory_test.py DDPRUN. Started by root, all is done as a user without an account.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from free_port import FreePort

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
PYTHON = "/usr/bin/python3"  # others may lie where another user may not look
SECRET = "a secret of this test, which is 64 bytes long and not random at all"
TIME_LIMIT = 60  # seconds
USER = 54321 if os.geteuid() == 0 else os.geteuid()  # no account has this number
IDENTITY = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}

YAMA = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
MAY_TRACE = not YAMA.exists() or YAMA.read_text() == "0\n"

# Tries to read the memory of each ddprun above this process, and prints the results.
LOOKING = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

def field(pid, name):
    with open(f"/proc/{pid}/status") as lines:
        return next(line.split()[1] for line in lines if line.startswith(name + ":"))

def attempt(what):
    try:
        what()
        return "done"
    except OSError as error:
        return os.strerror(error.errno)

def read_memory(pid):
    with open(f"/proc/{pid}/maps") as maps:
        begin = int(next(line for line in maps if "[stack]" in line).split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(begin)
        memory.read(1)

def seize(pid):
    if libc.ptrace(0x4206, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "")

def look(pid):
    with open(f"/proc/{pid}/cmdline") as words:
        program = words.read().split(chr(0))[0]
    if os.path.basename(program) == "ddprun":
        print("memory:", attempt(lambda: read_memory(pid)))
        print("descriptors:", attempt(lambda: os.listdir(f"/proc/{pid}/fd")))
        print("ptrace:", attempt(lambda: seize(pid)), flush=True)

pid = os.getpid() if os.environ["RANK"] == "0" else 0  # a process has one tracer at most
while pid > 1 and field(pid, "Uid") == field(os.getpid(), "Uid"):
    look(pid)
    pid = int(field(pid, "PPid"))
"""

HANGING = """
import ctypes
def wait_in_c():
    print("hanging", flush=True)
    while ctypes.CDLL(None).pause() or True: pass
wait_in_c()
"""

# A replacement for ssh: the other machine is this one.
SSH = '#!/bin/sh\nfor last; do :; done\nexec /bin/sh -c "$last"\n'


class PrivateMemoryTest(unittest.TestCase):
    REFUSED = ("Permission denied", "Permission denied", "Operation not permitted")
    DONE = ("done", "done", "done")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(DDPRUN, self.folder / "ddprun")
        self.secret = self.folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o400)
        ssh = self.folder / "ssh"
        ssh.write_text(SSH)
        ssh.chmod(0o755)
        for path in (self.folder, self.secret):
            os.chown(path, USER, -1)
        port = FreePort()
        self.addCleanup(port.close)
        self.port = port.number

    def start(self, *arguments):
        path = f"{self.folder}:/usr/bin:/bin"
        process = subprocess.Popen(
            [self.folder / "ddprun", *arguments], cwd=self.folder, text=True,
            env={"PATH": path, "TMPDIR": str(self.folder), "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **IDENTITY)
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        return process

    def start_node(self, number, trust, *command):
        """The first number is 2."""
        return self.start(
            "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", trust,
            f"--rdzv_endpoint=127.0.0.2:{self.port}", f"--local_addr=127.0.0.{number}",
            f"--rdzv_conf=is_host={int(number == 2)}", "--no_python", *command)

    def run_nodes(self, trust, *command):
        """Returns the output of both nodes."""
        nodes = [self.start_node(number, trust, *command) for number in (2, 3)]
        output = [node.communicate(timeout=TIME_LIMIT)[0] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [0, 0], output)
        return "".join(output)

    def read_to(self, node, words):
        """Returns the line with the results."""
        lines = []
        while not lines or words not in lines[-1]:
            lines.append(node.stdout.readline())
            self.assertTrue(lines[-1], "".join(lines))
        return lines[-1]

    def run_over_ssh(self, mode):
        config = {
            "version": 1,
            "job": {"command": [PYTHON, "-c", LOOKING], "no_python": True},
            "rendezvous": {"master_port": self.port},
            "nodes": [{"name": f"node{number}", "address": f"127.0.0.{number}"}
                      for number in (2, 3)],
            "ssh": {"program": str(self.folder / "ddprun")},
            **mode,
        }
        (self.folder / "cluster.json").write_text(json.dumps(config))
        process = self.start("--config=cluster.json", "--ssh")
        output = process.communicate(timeout=TIME_LIMIT)[0]
        self.assertEqual(process.returncode, 0, output)
        return output

    def assert_looks(self, output, count, memory, descriptors, ptrace):
        found = re.findall(r"(?:memory|descriptors|ptrace): .*", output)
        self.assertEqual(sorted(found), sorted(count * [
            f"memory: {memory}", f"descriptors: {descriptors}", f"ptrace: {ptrace}"]), output)

    def looks_of(self, output):
        """Returns the results at the agent, the supervisor and the starter."""
        found = re.findall(r"memory: (.*)\n.*descriptors: (.*)\n.*ptrace: (.*)", output)
        self.assertEqual(len(found), 3, output)
        return found

    def test_a_worker_cannot_read_the_memory_of_an_agent_with_a_secret(self):
        output = self.run_nodes(f"--secret_file={self.secret}", PYTHON, "-c", LOOKING)
        self.assert_looks(output, 1, *self.REFUSED)

    @unittest.skipUnless(MAY_TRACE, "the kernel lets nobody read a parent's memory")
    def test_a_worker_can_read_the_memory_of_an_agent_without_a_secret(self):
        output = self.run_nodes("--security=open", PYTHON, "-c", LOOKING)
        self.assert_looks(output, 1, *self.DONE)

    def test_a_worker_cannot_read_the_agent_and_the_starter_of_its_run_over_ssh(self):
        """The supervisor between the two does not hold the secret."""
        output = self.run_over_ssh({})
        agent, _, starter = self.looks_of(output)
        self.assertEqual((agent, starter), (self.REFUSED, self.REFUSED), output)

    @unittest.skipUnless(MAY_TRACE, "the kernel lets nobody read a parent's memory")
    def test_a_worker_started_over_ssh_without_a_secret_can_read_the_starter(self):
        """The memory of the agent is private before it knows that there is no secret."""
        output = self.run_over_ssh({"security": {"mode": "open"}})
        self.assertEqual(self.looks_of(output), [self.REFUSED, self.DONE, self.DONE], output)

    def test_the_kernel_kills_workers_before_an_agent_with_a_secret(self):
        own = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
        output = self.run_nodes(f"--secret_file={self.secret}", "/bin/cat",
                                "/proc/self/oom_score_adj")
        self.assertEqual(output.count(f"[default0]:{min(own + 100, 1000)}\n"), 2, output)

    @unittest.skipUnless(shutil.which("gdb", path="/usr/bin"), "there is no gdb")
    def test_an_agent_with_a_secret_gets_the_stacks_of_python(self):
        nodes = [self.start_node(number, f"--secret_file={self.secret}", PYTHON, "-c", HANGING)
                 for number in (2, 3)]
        for node in nodes:
            self.read_to(node, "hanging")
        nodes[1].send_signal(signal.SIGRTMIN)
        line = self.read_to(nodes[1], "stacks of rank")
        nodes[1].terminate()
        rest = nodes[1].stdout.read()
        if "not permitted" in line + rest or "too old for the processor" in line + rest:
            self.skipTest("gdb cannot call functions here")
        self.assertIn("by Python under gdb", line)
        self.assertIn("in wait_in_c", rest)


if __name__ == "__main__":
    unittest.main()
