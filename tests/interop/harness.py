"""Runs ddprun and checks that nothing of the run is left at its end.

As a program, harness.py DDPRUN OPTIONS... PROGRAM tests a program with assertions: it must exit
with 0 after a worker has printed the line "passed", and standard error must be empty since the last
restart. Such programs end with a barrier, because PyTorch 2.15 may abort if the interpreter exits
while a thread of Gloo still frees the last collective's tensors. Unit tests that run ddprun
themselves derive from RunTest.

The workers' interpreter is PYTHON_EXEC, by default Debian's. Without a PyTorch in it, a test exits
with 77, which CTest reports as skipped.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import LOOK_AGAIN, adopt_orphans, end_children, living_children

INTERPRETER = os.environ.get("PYTHON_EXEC", "/usr/bin/python3")
TIME_LIMIT = 200.0  # seconds; less than CTest's TIMEOUT, so that the output is shown
STACKS_PAUSE = 2.0  # the longest between two lines about stacks
GRACE = 20.0  # for a ddprun that is told to end after that
SKIPPED = 77
# Messages of ddprun, and of Gloo's connections if a PyTorch (Debian's 2.14) logs them.
EXPECTED_LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (info|warning) |"
    r"\[default\d+\]:\[\S+/gloo/\S+\] INFO ")
RESTART_LINE = re.compile(r"^.*: restarting(?: in \S+ s)?: .*\n", re.MULTILINE)


def wait_until(condition):
    """Polls the condition; returns False if it is not true in time."""
    deadline = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_AGAIN)
    return True


def wait_for_orphans():
    """Waits for processes of a killed agent, which its guardian ends; finish() reports leftovers.
    """
    wait_until(lambda: not living_children())


def is_pytorchs(folder):
    """Recognises caches of PyTorch. When torch.distributed is imported, PyTorch 2 writes a file to
    a folder of its own and removes both at exit: a killed process leaves them."""
    if folder.name.startswith("torchinductor_"):
        return True
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    return folder.name.startswith("tmp") and names <= {"_remote_module_non_scriptable.py"}


class Run:
    """A ddprun with its own temporary folder.

    code, stdout and stderr are available after finish(); `folder` is the workers' current folder.
    """

    def __init__(self, ddprun, *arguments, environment=None):
        self._scratch = tempfile.TemporaryDirectory(prefix="ddprun-interop-")
        root = pathlib.Path(self._scratch.name)
        self.folder, self._temporary = root / "work", root / "tmp"
        self.folder.mkdir()
        self._temporary.mkdir()
        # Files, since a leftover process would keep a pipe open.
        self._stdout, self._stderr = root / "stdout", root / "stderr"
        set_here = {"PYTHON_EXEC": INTERPRETER, "TMPDIR": str(self._temporary),
                    "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with open(self._stdout, "wb") as stdout, open(self._stderr, "wb") as stderr:
            self.process = subprocess.Popen(
                [ddprun, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr, env={**os.environ, **set_here, **(environment or {})})

    def finish(self, time_limit=TIME_LIMIT):
        """Waits for the end and returns descriptions of leftovers of the run; empty without any."""
        left = []
        try:
            self.process.wait(time_limit)
        except subprocess.TimeoutExpired:
            left.append(f"ddprun itself, after {time_limit} s")
            self._end()
        left += end_children()
        # A socket lives as long as its process; a file does not.
        left += [f"file {path}" for folder in self._temporary.iterdir()
                 if not is_pytorchs(folder) for path in (folder, *folder.rglob("*"))]
        self.code = self.process.returncode
        self.stdout = self._stdout.read_text(errors="replace")
        self.stderr = self._stderr.read_text(errors="replace")
        return left

    def wait_for(self, text):
        """Waits until a worker has printed the text, or the run has ended."""
        self._wait_for(text, self._stdout)

    def wait_for_message(self, text):
        """The same for a message of ddprun."""
        self._wait_for(text, self._stderr)

    def _wait_for(self, text, file):
        wait_until(lambda: text in file.read_text(errors="replace")
                   or self.process.poll() is not None)

    def _show_stacks(self):
        """Prints the workers' stacks and waits until the output ends."""
        self.process.send_signal(signal.SIGRTMIN)
        size, deadline = -1, time.monotonic() + GRACE
        while size != self._stderr.stat().st_size and time.monotonic() < deadline:
            size = self._stderr.stat().st_size
            time.sleep(STACKS_PAUSE)

    def _end(self):
        self._show_stacks()
        self.process.terminate()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self):
        self._scratch.cleanup()


class RunTest(unittest.TestCase):
    """Base of unit tests that run ddprun: each run is checked for leftovers."""

    ddprun = None  # set by main()

    def start(self, *arguments, environment=None):
        run = Run(self.ddprun, *arguments, environment=environment)
        self.addCleanup(run.close)
        return run

    def finish(self, run):
        left = run.finish()
        self.assertEqual(left, [], run.stdout + run.stderr)
        return run

    def run_ddprun(self, *arguments, environment=None):
        return self.finish(self.start(*arguments, environment=environment))


def skip_without_torch():
    look = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
    if subprocess.run([INTERPRETER, "-c", look], check=False).returncode != 0:
        print(f"skipped: {INTERPRETER} has no PyTorch; 'scripts/install_packages interop' installs"
              " Debian's, and PYTHON_EXEC names another interpreter")
        sys.exit(SKIPPED)


def lacks_libuv():
    """Returns whether PyTorch's clients can only use a store hosted by a worker."""
    look = "import store_clients; print(store_clients.OPTIONS)"
    return "use_libuv" in subprocess.run([INTERPRETER, "-c", look], check=True, text=True,
                                         cwd=pathlib.Path(__file__).parent,
                                         stdout=subprocess.PIPE).stdout


def main():
    """Main function of files with unit tests; the first argument is the path of ddprun."""
    RunTest.ddprun = sys.argv.pop(1)
    skip_without_torch()
    adopt_orphans()
    unittest.main()


def complaints(run, left):
    """Returns the errors of a run of a program with assertions."""
    wrong = [f"left behind: {what}" for what in left]
    if run.code != 0:
        return wrong + [f"ddprun ended with {run.code}"]
    if not re.search(r"^\[default\d+\]:passed$", run.stdout, re.MULTILINE):
        wrong.append("no worker printed 'passed'")
    since_restart = RESTART_LINE.split(run.stderr)[-1]
    for line in since_restart.splitlines():
        if not EXPECTED_LINE.match(line):
            wrong.append(f"unasked for on standard error: {line}")
    return wrong


def run_program(ddprun, *arguments):
    run = Run(ddprun, *arguments)
    wrong = complaints(run, run.finish())
    print(run.stdout, run.stderr, *wrong, sep="\n")
    run.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    skip_without_torch()
    adopt_orphans()
    sys.exit(run_program(*sys.argv[1:]))
