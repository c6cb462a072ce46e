"""Stacks of PyTorch workers that hang in a collective."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import harness

HANGS = pathlib.Path(__file__).parent / "hangs.py"
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

    def assert_python_lines(self, run, reason):
        for rank, function in ((0, "wait_in_vain"), (1, "never_come")):
            stacks = self.read(run, rank, "stacks.txt")
            self.assertRegex(
                stacks, rf'{reason}(\n(?!==== rank).*)*hangs.py", line \d+ in {function}\n')

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
        self.assertIn("by Python under gdb", run.stderr)

    def test_stacks_are_captured_before_workers_are_killed(self):
        run = self.start_hanging("--shutdown_timeout=0.5", HANGS, "deaf",
                                 environment=WITHOUT_TOOLS)
        run.process.terminate()
        self.finish(run)
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.stderr)
        self.assert_python_lines(run, "still running 0.5 s after the request to stop")
        self.assertIn("by faulthandler", run.stderr)


if __name__ == "__main__":
    harness.main()
