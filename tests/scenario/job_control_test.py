"""Job control with a real shell on a terminal: Ctrl-Z, fg, and the hangup of the terminal.

Usage: job_control_test.py DDPRUN
"""
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from cgroups import cgroup_of
from orphans import adopt_orphans, end_children
from terminal import TIME_LIMIT, Terminal

DDPRUN = sys.argv.pop(1)

# Workers that print their pids and run on; each starts a process in its own session.
BUSY = """
setsid sh -c 'echo $$ >helper.$0; exec sleep 1000' $RANK &
echo $$ >worker.$RANK
while [ ! -e go ]; do sleep 0.01; done
"""
# Takes longer to end than its grace period.
SLOW_TO_END = """
trap 'echo >ending.$RANK; while [ ! -e go ]; do sleep 0.01; done; exit 0' TERM
echo $$ >worker.$RANK
while :; do sleep 0.01; done
"""


def wait_until(condition, what):
    until = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what} did not come about")
        time.sleep(0.002)


def is_stopped(pid):
    """Stopped by a signal, or with its cgroup."""
    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    cgroup = cgroup_of(pid)
    if state == "T" or cgroup is None:
        return state == "T"
    events = cgroup / "cgroup.events"
    return events.exists() and "frozen 1" in events.read_text()


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the latter while the process is reaped
        return False


class JobControlTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ddprun-job-")
        self.addCleanup(scratch.cleanup)
        self.addCleanup(self.check_that_nothing_is_left)
        self.folder = pathlib.Path(scratch.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.shell = Terminal(["bash", "--norc", "--noprofile", "-i"], columns=200,
                              environment={"PS1": "$ ", "HISTFILE": "", "LC_ALL": "C"})
        self.addCleanup(self.shell.close)

    def check_that_nothing_is_left(self):
        """Of a run whose shell has exited; processes that end by themselves get time for it."""
        self.assertEqual(end_children(TIME_LIMIT), [])

    def start(self, script, *options):
        """Starts two workers in the foreground of the shell; returns the pids in `names` files."""
        (self.folder / "worker.sh").write_text(script)
        command = [DDPRUN, "--nproc_per_node=2", "--events=events", *options]
        self.shell.send(" ".join(command) + " --no_python sh worker.sh\n")

    def pids(self, *names):
        def read(name):
            path = self.folder / name
            return path.read_text().strip() if path.exists() else ""
        wait_until(lambda: all(read(name) for name in names), f"files {names}")
        return [int(read(name)) for name in names]

    def expect(self, pattern):
        self.shell.read_until(lambda: re.search(pattern, self.shell.bytes.decode(errors="replace")),
                              pattern)

    def events(self):
        return (self.folder / "events").read_text()

    def press_ctrl_z(self):
        self.shell.send("\x1a")
        self.expect(r"Stopped .*ddprun")

    def test_ctrl_z_suspends_workers_and_descendants_and_fg_resumes_them(self):
        self.start(BUSY)
        pids = self.pids("worker.0", "worker.1", "helper.0", "helper.1")
        for _ in range(2):
            self.press_ctrl_z()
            for pid in pids:
                wait_until(lambda pid=pid: is_stopped(pid), f"stopping {pid}")
            self.shell.bytes = b""
            self.shell.send("fg\n")
            self.expect("the workers continue after")
            for pid in pids:
                wait_until(lambda pid=pid: not is_stopped(pid), f"continuing {pid}")
        (self.folder / "go").touch()
        self.shell.send("echo code=$?\n")
        self.expect(r"code=0\r")
        for pid in pids:
            wait_until(lambda pid=pid: not is_alive(pid), f"the end of {pid}")

    def test_background_run_leaves_the_terminal_to_the_shell(self):
        (self.folder / "worker.sh").write_text("cat >input.$RANK")
        command = f"{DDPRUN} --nproc_per_node=2 --no_python sh worker.sh"
        self.shell.send(f"({command}; echo $? >code) &\n")
        self.shell.send("echo typed=$((40 + 2))\n")
        self.expect(r"typed=42\r")
        self.assertEqual(self.pids("code"), [0])
        self.assertEqual([(self.folder / f"input.{i}").read_text() for i in (0, 1)], ["", ""])

    def test_suspension_extends_the_grace_period(self):
        self.start(SLOW_TO_END, "--shutdown_timeout=1")
        self.pids("worker.0", "worker.1")
        agent = int(re.search(r"\d+", pathlib.Path(
            f"/proc/{self.shell.pid}/task/{self.shell.pid}/children").read_text())[0])
        os.kill(agent, signal.SIGTERM)
        wait_until(lambda: all((self.folder / f"ending.{i}").exists() for i in (0, 1)), "ending")
        self.press_ctrl_z()
        # The limit must pass in real time to prove the claim.
        time.sleep(1.2)
        (self.folder / "go").touch()
        self.shell.bytes = b""
        self.shell.send("fg\n")
        self.expect("the workers continue after")
        self.shell.send("echo code=$?\n")
        self.expect(r"code=143\r")
        self.assertNotIn("workers_killed", self.events())

    def test_killed_suspended_run_leaves_no_process(self):
        self.start(BUSY)
        pids = self.pids("worker.0", "worker.1", "helper.0", "helper.1")
        self.press_ctrl_z()
        self.shell.send("kill -KILL %1\n")
        for pid in pids:
            wait_until(lambda pid=pid: not is_alive(pid), f"the end of {pid}")

    def test_terminal_hangup_ends_running_and_suspended_runs(self):
        for suspended in (False, True):
            with self.subTest(suspended=suspended):
                if suspended:
                    self.doCleanups()
                    self.setUp()
                self.start(BUSY)
                pids = self.pids("worker.0", "worker.1", "helper.0", "helper.1")
                if suspended:
                    self.press_ctrl_z()
                self.shell.hang_up()
                for pid in pids:
                    wait_until(lambda pid=pid: not is_alive(pid), f"the end of {pid}")

    def test_ctrl_c_ends_the_run(self):
        self.start(BUSY)
        pids = self.pids("worker.0", "worker.1", "helper.0", "helper.1")
        self.shell.send("\x03")
        self.shell.send("echo code=$?\n")
        self.expect(r"code=130\r")
        for pid in pids:
            wait_until(lambda pid=pid: not is_alive(pid), f"the end of {pid}")


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
