"""Base of tests that run ddprun --ssh on the hosts of ssh_hosts.py."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from free_port import FreePort
from ssh_hosts import MARKER, SshHosts, missing

# First argument of each test file.
DDPRUN = sys.argv.pop(1)
TIME_LIMIT = 120

PLACE = "echo rank $RANK of $WORLD_SIZE"
# Ends by a signal, or when the test creates the file.
BUSY = "echo rank $RANK of $WORLD_SIZE; while [ ! -e go ]; do sleep 0.02; done"


class Run:
    """A running ddprun and its output so far."""

    def __init__(self, arguments, folder, environment):
        self.process = subprocess.Popen(
            [DDPRUN, *arguments], cwd=folder, env={**os.environ, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.output, self.error = [], []
        self.news = threading.Condition()
        self.threads = [threading.Thread(target=self.collect, args=each) for each in
                        ((self.process.stdout, self.output), (self.process.stderr, self.error))]
        for thread in self.threads:
            thread.start()

    def collect(self, stream, lines):
        with stream:
            for line in stream:
                with self.news:
                    lines.append(line)
                    self.news.notify_all()

    def text(self):
        return "".join(self.output + self.error)

    def wait_for(self, pattern):
        with self.news:
            found = self.news.wait_for(lambda: re.search(pattern, self.text()), TIME_LIMIT)
        if not found:
            raise AssertionError(f"no {pattern} in:\n{self.text()}")

    def wait(self):
        try:
            code = self.process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"ddprun did not end:\n{self.text()}") from error
        for thread in self.threads:
            thread.join(TIME_LIMIT)
        return code


class SshTest(unittest.TestCase):
    nodes = 2

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.hosts = SshHosts(folder.name, self.nodes)
        self.addCleanup(self.hosts.close)
        self.runs = []
        self.addCleanup(self.end_all)

    def free_port(self):
        port = FreePort()
        self.addCleanup(port.close)
        return port.number

    def wait_until(self, condition):
        until = time.monotonic() + TIME_LIMIT
        while not condition():
            self.assertLess(time.monotonic(), until, "time limit")
            time.sleep(0.02)

    def end_all(self):
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
            run.wait()
        left = self.hosts.left_over()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, {}, "left behind")

    def config(self, script, ssh=None, **sections):
        text = {
            "version": 1,
            "job": {"command": ["/bin/sh", "-c", script.replace("$", "$$")], "no_python": True},
            "rendezvous": {"master_port": self.free_port()},
            "nodes": [{"name": f"node{i + 1}", "address": address}
                      for i, address in enumerate(self.hosts.addresses)],
            "ssh": self.hosts.section(**(ssh or {})),
            **sections,
        }
        (self.folder / "cluster.json").write_text(json.dumps(text))

    def start(self, *arguments, **environment):
        run = Run(["--config=cluster.json", "--ssh", *arguments], self.folder,
                  {MARKER: str(self.folder), **environment})
        self.runs.append(run)
        return run


def run_tests():
    """Main program of a test file. Ends with 77 (skipped) if sshd cannot run here."""
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
