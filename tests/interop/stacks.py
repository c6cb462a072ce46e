"""Stacks of PyTorch workers that hang in a collective.

The interpreter's environment may have py-spy, which ddprun then prefers to gdb and faulthandler.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import harness

HANGS = pathlib.Path(__file__).parent / "hangs.py"
FUNCTIONS = {0: "wait_in_vain", 1: "never_come"}  # in which the ranks wait
CLIENT = """
import socket, sys
for name in sys.argv[1:]:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect("\\0" + name)
        while text := connection.recv(65536):
            sys.stdout.buffer.write(text)
    except ConnectionError:
        pass  # of another run
"""
WITHOUT_TOOLS = {"PATH": "/nonexistent"}


def let_gdb_be_read_from_disk():
    """On a new machine the first start of gdb may take longer than the limit of a run."""
    subprocess.run(["gdb", "--nx", "--batch", "-p", str(os.getpid())], check=False,
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.TIME_LIMIT)


class Stacks(harness.RunTest):
    def start_hanging(self, *arguments, environment=None):
        """Returns when both workers run, of which the first is about to hang."""
        run = self.start("--nproc_per_node=2", "--log_dir=logs", "--redirects=3", *arguments,
                         environment=environment)
        self.wait_for(run, "stdout.log", "up\n")
        return run

    def wait_for(self, run, file, text):
        """Waits until `text` is in this file of both workers."""
        deadline = time.monotonic() + harness.TIME_LIMIT
        while not all(text in self.read(run, rank, file) for rank in (0, 1)):
            self.assertIsNone(run.process.poll(), "ddprun has ended")
            self.assertLess(time.monotonic(), deadline, f"no '{text}' in {file}")
            time.sleep(0.05)

    def read(self, run, rank, file):
        return "".join(path.read_text() for path in run.folder.glob(f"logs/*/*/{rank}/{file}"))

    def assert_python_lines(self, run, reason, functions=FUNCTIONS):
        for rank, function in functions.items():
            line = rf'hangs.py", line \d+ in {function}|    {function} \(\S*hangs.py:\d+\)'
            self.assertRegex(self.read(run, rank, "stacks.txt"),
                             rf"{reason}(\n(?!==== rank).*)*({line})\n")

    def test_stacks_are_captured_on_request_and_before_the_stop_signal(self):
        if not shutil.which("gdb"):
            self.skipTest("there is no gdb")
        let_gdb_be_read_from_disk()
        run = self.start_hanging("--stacks=stop", HANGS)
        os.kill(run.process.pid, signal.SIGRTMIN)
        self.wait_for(run, "stacks.txt", "asked for by SIGRTMIN")
        os.kill(run.process.pid, signal.SIGINT)
        self.finish(run)
        self.assertEqual(run.code, 128 + signal.SIGINT, run.stderr)
        if "not permitted" in run.stderr:
            self.skipTest("processes may not be traced here")
        if "too old for the processor" in run.stderr:
            self.assertEqual(self.read(run, "*", "stacks.txt").count("gdb is too old"), 4)
            self.skipTest("gdb cannot call functions on this processor")
        self.assert_python_lines(run, "asked for by SIGRTMIN")
        self.assert_python_lines(run, "before they are asked to stop")
        self.assertRegex(run.stderr, "by (Python under gdb|py-spy)")

    def test_stacks_are_captured_before_workers_are_killed(self):
        run = self.start_hanging("--shutdown_timeout=0.5", HANGS, "deaf",
                                 environment=WITHOUT_TOOLS)
        run.process.terminate()
        self.finish(run)
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.stderr)
        self.assert_python_lines(run, "still running 0.5 s after the request to stop")
        self.assertRegex(run.stderr, "by (faulthandler|py-spy)")

    def assert_own_lines(self, run, rank):
        heading = r'\nThread \d+ \(idle\): "MainThread"\n'
        self.assertRegex(self.read(run, rank, "stacks.txt"),
                         rf"{heading}( .*\n)*    {FUNCTIONS[rank]} \(.*hangs.py:\d+\)\n")

    def test_a_preloaded_worker_shows_its_python_lines_without_tools_and_continues(self):
        run = self.start_hanging("--preload=torch", "--stacks=stop", HANGS,
                                 environment=WITHOUT_TOOLS)
        for count in (1, 2):
            os.kill(run.process.pid, signal.SIGRTMIN)
            self.assertTrue(harness.wait_until(lambda: all(
                self.read(run, rank, "stacks.txt").count("by SIGRTMIN") == count
                for rank in (0, 1))))
        for rank in FUNCTIONS:
            self.assert_own_lines(run, rank)
        run.process.terminate()
        self.finish(run)
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.stderr)
        self.assertIn("taken by a thread of the worker", run.stderr)
        self.assertNotIn("faulthandler", run.stderr)

    def test_a_preloaded_worker_that_keeps_its_interpreter_locked_is_inspected_otherwise(self):
        run = self.start_hanging("--preload=torch", "--shutdown_timeout=0.5", HANGS, "deaf",
                                 "locked", environment=WITHOUT_TOOLS)
        run.process.terminate()
        self.finish(run)
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.stderr)
        self.assertIn("a thread of the worker: no answer", run.stderr)
        self.assert_python_lines(run, "still running 0.5 s after the request to stop",
                                 {1: "never_come"})
        self.assert_own_lines(run, 0)

    def test_a_preloaded_worker_answers_only_its_user_and_root(self):
        if os.geteuid() != 0:
            self.skipTest("must be root")
        run = self.start_hanging("--preload=torch", HANGS)
        names = re.findall(r"@(ddprun-\w+)\n", pathlib.Path("/proc/net/unix").read_text())
        self.assertGreaterEqual(len(names), 2)
        for user, is_answered in ((0, True), (65534, False)):
            client = subprocess.run(["/usr/bin/python3", "-c", CLIENT, *names], user=user,
                                    check=True, stdout=subprocess.PIPE, timeout=harness.TIME_LIMIT)
            self.assertEqual(b"wait_in_vain" in client.stdout, is_answered)
        run.process.terminate()
        self.finish(run)

    def threads_of(self, *options):
        """Returns their numbers in rank 0 before and after its process group starts."""
        run = self.start_hanging("--preload=torch", *options, HANGS)
        run.process.terminate()
        self.finish(run)
        line = re.search(r"threads (\d+) (\d+)\n", self.read(run, 0, "stdout.log"))
        return int(line[1]), int(line[2])

    def test_a_preloaded_worker_has_one_more_thread_once_it_has_a_process_group(self):
        before, after = self.threads_of()
        self.assertEqual(before, 1)
        self.assertEqual(self.threads_of("--stacks=never"), (before, after - 1))


if __name__ == "__main__":
    harness.main()
