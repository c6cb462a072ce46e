"""A run leaves no process, cgroup or folder: not with descendants that move to another cgroup, a
fork bomb, or SIGKILL while ddprun starts. A process that cannot be killed is reported as such.

Usage: descendants_test.py DDPRUN [--all]
With --all, 700 early kills instead of 12 or more, a fork bomb of 400 processes instead of 100, and
workers that cannot be killed, for which ddprun waits a minute: run manually, about ten minutes.
"""
import collections
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from cgroups import own_cgroup
from free_port import FreePort
from hung_file_system import HungFileSystem
from orphans import adopt_orphans, end_children, living_children

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
IS_LONG = "--all" in sys.argv
if IS_LONG:
    sys.argv.remove("--all")
TIME_LIMIT = 60  # seconds
LOOK_AGAIN = 0.001  # seconds
NOBODY = 65534
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_CAPBSET_DROP, CAP_KILL = 24, 5

EARLY_KILLS = 700 if IS_LONG else 12
EARLY = 0.025  # seconds; ddprun has started its workers by then, or is about to
# Phases of a start that early kills must hit.
EARLY_PHASES = {"the time before the folder", "the time before the guardian", "a guardian"}
BOMB_PROCESSES = 400 if IS_LONG else 100
# Seconds until a fork bomb is gone. With a cgroup, which the kernel kills at once, the aim is 10;
# without one, as here, single runs on busy machines took 15.
BOMB_LIMIT = 30

# Script of workers that hang on one node or rank and fail elsewhere, in the folder of the test.
READING = "reading"
READ_OR_SLEEP = """
import os, sys, time
def load():
    if os.environ["RANK"] == "1":
        open(sys.argv[1], "rb").read()
    time.sleep(1000)
load()
"""
SOON = r"rank 1 \(pid \d+\) is still running [12]?\d(\.\d)? s after SIGKILL: state D"
# py-spy may be beside the interpreter.
PATH = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
FAIL = f"while [ ! -e {READING} ]; do sleep 0.1; done; sleep 0.5; exit 3"

# Like a helper that sudo starts in the background.
OF_ANOTHER_USER = f"""
import os, pathlib, sys
if os.fork() > 0:
    os._exit(0)
os.setsid(), os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
os.execvp("sleep", ["sleep", "1000"])
"""

# In new sessions, so that signals to the workers' process groups do not reach them. Root is not
# subject to the limit of processes.
BOMB = f"""
import os, pathlib, resource, signal
if os.geteuid() == 0:
    os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
of_user = 0
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        if folder.stat().st_uid == os.getuid():
            of_user += len(os.listdir(folder / "task"))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
resource.setrlimit(resource.RLIMIT_NPROC, [of_user + {BOMB_PROCESSES}] * 2)
if os.fork() > 0:
    signal.pause()  # the worker ends by SIGTERM
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except BlockingIOError:
        open(FULL, "a").close()
"""


def wait_until(condition, time_limit=TIME_LIMIT):
    deadline = time.monotonic() + time_limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_AGAIN)
    return True


def is_childless():
    """Reaps ended children; returns whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        return True
    return False


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def hide_cgroups():
    """Called between fork and exec: ddprun then finds descendants by their environment."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.unshare(CLONE_NEWNS) != 0 or
            libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0 or
            libc.mount(b"none", b"/sys/fs/cgroup", b"tmpfs", 0, None) != 0):
        raise OSError(ctypes.get_errno(), "mount namespace")


def can_call(prepare):
    """To be called between fork and exec."""
    try:
        subprocess.run(["true"], preexec_fn=prepare, check=True)
    except subprocess.SubprocessError:
        return False
    return True


def can_hide_cgroups():
    return can_call(hide_cgroups)


def give_up_other_users():
    """Called between fork and exec: ddprun, although root, then cannot kill processes of other
    users."""
    hide_cgroups()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "capabilities")


class Cgroup:
    """A cgroup beside those of ddprun's runs, or the reason why it cannot be created."""

    def __init__(self, name):
        self.problem = "no cgroup2 hierarchy is mounted"
        self.folder = own_cgroup()
        if self.folder is None:
            return
        self.folder /= f"{name}-{os.getpid()}"
        try:
            self.folder.mkdir()
            # Only processes with this right can move others.
            subprocess.run(["/bin/sh", "-c", f"echo $$ >{self.folder}/cgroup.procs"], check=True,
                           stderr=subprocess.DEVNULL)
            self.problem = None
        except (OSError, subprocess.CalledProcessError) as error:
            self.problem = str(error)

    def enter(self):
        """To be called between fork and exec."""
        (self.folder / "cgroup.procs").write_text("0")

    def remove(self):
        """A process that is being reaped is still in the cgroup."""
        if self.folder is None or not self.folder.exists():
            return
        if not wait_until(lambda: not (self.folder / "cgroup.procs").read_text()):
            raise AssertionError("processes are left in " + str(self.folder))
        self.folder.rmdir()


class DescendantsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o777)  # a worker may drop its rights
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.addCleanup(end_children)

    def start(self, command, prepare=None, output="output"):
        """`prepare` is called between fork and exec."""
        output = open(self.folder / output, "wb")
        self.addCleanup(output.close)
        process = subprocess.Popen(
            [DDPRUN, "--no_python", *command], stdout=output, stderr=output,
            stdin=subprocess.DEVNULL, cwd=self.folder, preexec_fn=prepare,
            env=os.environ | {"TMPDIR": str(self.temporary), "PATH": PATH})
        self.addCleanup(process.kill)
        return process

    def output(self, name="output"):
        """On one line, since the final report is wrapped."""
        return " ".join((self.folder / name).read_text(errors="replace").split())

    def left_in_temporary_folder(self):
        return sorted(path.name for path in self.temporary.iterdir())

    def check_moved(self, cgroup, how, end):
        """A descendant moves to `cgroup`, then the run ends. `$$$$`: ddprun makes it `$$`."""
        file = self.folder / "pid"
        file.unlink(missing_ok=True)
        move = (f"{how} sh -c 'echo 0 >{cgroup.folder}/cgroup.procs; echo $$$$ >{file}.new; "
                f"mv {file}.new {file}; exec sleep 1000' </dev/null >/dev/null 2>&1 &\n")
        then = {"success": "exit 0", "failure": "exit 3"}.get(end, "exec sleep 1000")
        process = self.start(
            ["/bin/sh", "-c", move + f"while [ ! -e {file} ]; do sleep 0.01; done\n" + then])
        self.assertTrue(wait_until(file.exists), self.output())
        if end.startswith("SIG"):
            process.send_signal(signal.Signals[end])
        exit_code = {"success": 0, "failure": 1, "SIGTERM": 128 + signal.SIGTERM,
                     "SIGKILL": -signal.SIGKILL}[end]
        self.assertEqual(exit_code, process.wait(TIME_LIMIT), self.output())
        pid = int(file.read_text())
        # Only a guardian continues after the end of ddprun.
        limit = TIME_LIMIT if end == "SIGKILL" else 0
        self.assertTrue(wait_until(lambda: not is_alive(pid), limit), f"{how}: {self.output()}")
        self.assertEqual([], end_children(limit))

    def test_descendants_that_move_to_another_cgroup(self):
        cgroup = Cgroup("moved")
        self.addCleanup(cgroup.remove)
        if cgroup.problem:
            self.skipTest(cgroup.problem)
        for how in ("", "setsid", "env -i PATH=$PATH setsid"):
            for end in ("success", "failure", "SIGTERM", "SIGKILL"):
                if how.startswith("env -i") and end == "SIGKILL":
                    continue  # see CAVEATS in the man page
                with self.subTest(how=how, end=end):
                    self.check_moved(cgroup, how, end)

    def test_fork_bomb_without_cgroup(self):
        if not can_hide_cgroups():
            self.skipTest("mount namespaces are not permitted here")
        full = self.folder / "full"
        for end in ("SIGTERM", "SIGKILL"):
            with self.subTest(end=end):
                full.unlink(missing_ok=True)
                process = self.start(["python3", "-c", f"FULL = {str(full)!r}\n{BOMB}"],
                                     hide_cgroups)
                self.assertTrue(wait_until(full.exists), self.output())
                begin = time.monotonic()
                process.send_signal(signal.Signals[end])
                process.wait(TIME_LIMIT)
                # Killed one by one, the processes would be replaced forever.
                self.assertTrue(wait_until(is_childless), self.output())
                seconds = time.monotonic() - begin
                print(f"fork bomb, {end}: gone after {seconds:.2f} s")
                if IS_LONG:
                    self.assertLess(seconds, BOMB_LIMIT)

    def kill_early(self, prepare, waits_for_folder):
        """Returns the phase that the kill has hit."""
        before = self.left_in_temporary_folder()

        def has_folder():
            return any(name not in before for name in self.left_in_temporary_folder())
        process = self.start(["true"], prepare)
        if waits_for_folder:
            wait_until(lambda: process.poll() is not None or has_folder())
            time.sleep(random.choice((0, random.uniform(0, EARLY / 5))))  # the guardian is next
        else:
            time.sleep(random.uniform(0, EARLY))
        had_folder = has_folder()
        process.kill()
        code = process.wait()
        # Guardians run until their runs have ended.
        self.assertTrue(wait_until(is_childless), living_children())
        if code == 0:
            return "the end"
        if not had_folder:
            return "the time before the folder"
        return "the time before the guardian" if has_folder() else "a guardian"

    def check_early_kills(self, prepare, cgroup=None):
        met = collections.Counter()
        cgroups = 0
        # The timing of ddprun depends on the machine, so the number of kills is not fixed.
        for i in range(10 * EARLY_KILLS):
            if i >= EARLY_KILLS and EARLY_PHASES <= set(met):
                break
            met[self.kill_early(prepare, waits_for_folder=i % 2 == 0)] += 1
            cgroups += len(list(cgroup.folder.glob("ddprun-run-*"))) if cgroup else 0
        print(f"early kills met {dict(met)} and left {cgroups} cgroups")
        self.assertLessEqual(EARLY_PHASES, set(met))
        process = self.start(["--log_dir=logs", "true"], prepare)
        self.assertEqual(0, process.wait(TIME_LIMIT), self.output())
        self.assertEqual([], self.left_in_temporary_folder())
        if cgroup:
            self.assertEqual([], list(cgroup.folder.glob("ddprun-run-*")))

    def test_early_kills(self):
        cgroup = Cgroup("early")
        self.addCleanup(cgroup.remove)
        if cgroup.problem:
            self.check_early_kills(None)
        else:
            self.check_early_kills(cgroup.enter, cgroup)

    def test_early_kills_without_cgroup(self):
        if not can_hide_cgroups():
            self.skipTest("mount namespaces are not permitted here")
        self.check_early_kills(hide_cgroups)

    def run_two_nodes(self, host, other, prepare=None, options=()):
        """Runs two nodes, one of which is enough. Returns exit codes and outputs."""
        with FreePort() as port:
            nodes = [self.start([
                "--nnodes=1:2", "--rdzv_backend=c10d", "--security=open", "--max_restarts=3",
                "--exit_code=worker",
                f"--rdzv_endpoint=127.0.0.2:{port.number}", f"--local_addr=127.0.0.{number}",
                f"--rdzv_conf=last_call_timeout=10,is_host={int(number == 2)}",
                "--shutdown_timeout=1", *options, "/bin/sh", "-c", script],
                prepare, f"output{number}")
                     for number, script in ((2, host), (3, other))]
            codes = [node.wait(3 * TIME_LIMIT) for node in nodes]
        return codes, self.output("output2"), self.output("output3")

    @staticmethod
    def end_helper(file):
        if file.exists():
            os.kill(int(file.read_text()), signal.SIGKILL)
            file.unlink()

    def leaving_a_helper(self):
        """Returns a command that leaves a process of another user, and the file with its pid."""
        if not can_call(give_up_other_users):
            self.skipTest("mount namespaces are not permitted here")
        helper = self.folder / "helper"
        script = self.folder / "helper.py"
        script.write_text(OF_ANOTHER_USER)

        self.addCleanup(self.end_helper, helper)
        return f"python3 {script} {helper}; while [ ! -s {helper} ]; do sleep 0.01; done", helper

    def test_success_of_several_nodes_that_leaves_a_process_of_another_user(self):
        leave, helper = self.leaving_a_helper()
        for host, other in ((leave, ":"), (":", leave)):
            with self.subTest(host=host):
                codes, *outputs = self.run_two_nodes(host, other, give_up_other_users)
                self.assertEqual([0, 0], codes, "".join(outputs))
                self.assertRegex(outputs[host == ":"], rf"process {helper.read_text()} \(sleep\) "
                                 "belongs to another user and cannot be killed")
                self.end_helper(helper)

    def test_node_whose_failure_leaves_a_process_leaves_the_run(self):
        leave, helper = self.leaving_a_helper()
        codes, host, other = self.run_two_nodes("[ $WORLD_SIZE = 1 ] || exec sleep 1000",
                                                f"{leave}; exit 3", give_up_other_users)
        self.assertEqual([0, 1], codes, host + other)
        self.assertRegex(other, "left the run after 1 attempt with exit code 1: this node cannot "
                         rf"start workers again: process {helper.read_text()} \(sleep\) belongs")

    def test_node_whose_success_leaves_a_process_has_no_part_in_another_round(self):
        leave, helper = self.leaving_a_helper()
        # The other node's output contains this command, which must not match its own pattern.
        fail = ("[ $WORLD_SIZE = 1 ] && exit 0; while ! grep -q 'to another use[r]' output3; "
                "do sleep 0.1; done; sleep 0.5; exit 3")
        codes, host, other = self.run_two_nodes(fail, leave, give_up_other_users)
        self.assertEqual([0, 1], codes, host + other)
        self.assertRegex(other, "left the run after 2 attempts with exit code 1: this node cannot "
                         rf"start workers again: process {helper.read_text()} \(sleep\) belongs")

    def mount_hung_file_system(self):
        mount = self.folder / "mount"
        mount.mkdir()
        try:
            hung = HungFileSystem(mount)
        except OSError as error:
            self.skipTest(f"FUSE: {error}")
        self.addCleanup(hung.close)
        stuck = (r"is still running [\d.]+ s after SIGKILL: state D \(uninterruptible sleep\) "
                 "in read of " + re.escape(str(hung.file())))
        return f": >{READING}; exec head -c1 {hung.file()}", stuck

    @unittest.skipUnless(IS_LONG, "takes more than a minute; see --all")
    def test_worker_that_cannot_be_killed(self):
        hang, stuck = self.mount_hung_file_system()
        process = self.start(["--nproc_per_node=2", "--max_restarts=3", "--shutdown_timeout=1",
                              "/bin/sh", "-c", f"if [ $LOCAL_RANK = 0 ]; then {hang}; fi; {FAIL}"])
        self.assertEqual(1, process.wait(3 * TIME_LIMIT), self.output())
        self.assertRegex(self.output(), r"rank 1 \(pid \d+\) failed with exit code 3; no restart, "
                         r"because rank 0 \(pid \d+\) " + stuck)
        for text in ("was killed by", "stopped with", "Stopped by", "that the workers had left",
                     "restarting"):
            self.assertNotIn(text, self.output())
        if own_cgroup():
            process = self.start(["true"])
            self.assertEqual(0, process.wait(TIME_LIMIT), self.output())
            self.assertRegex(self.output(), r"process \d+ \(head\), left by an earlier run, cannot "
                             r"be killed and may still write: state D \(uninterruptible sleep\)")
            self.assertNotIn("guardian", self.output())

    def test_run_does_not_wait_for_a_hung_worker_that_cannot_be_killed(self):
        _, stuck = self.mount_hung_file_system()
        process = self.start(["--nproc_per_node=2", "--max_restarts=3", "--hang_timeout=2",
                              *self.hang_in_a_read()])
        self.assertEqual(1, process.wait(TIME_LIMIT), self.output())
        self.assertRegex(self.output(), r"rank 1 hangs \(no progress for \S+ s\): [^;]*read of ")
        self.assertRegex(self.output(), SOON + "[^;]*; no restart beside it")
        self.assertRegex(self.output(), r"rank 1 \(pid \d+\) " + stuck)
        self.assertNotIn("not done in time", self.output())

    @unittest.skipUnless(shutil.which("py-spy", path=PATH), "py-spy is not installed")
    def test_python_lines_of_a_hung_worker_that_cannot_be_killed_are_reported(self):
        self.mount_hung_file_system()
        (self.folder / "train.py").write_text(READ_OR_SLEEP)
        process = self.start(["--nproc_per_node=2", "--max_restarts=3", "--hang_timeout=2",
                              sys.executable, "train.py", str(self.folder / "mount" / "file")])
        self.assertEqual(1, process.wait(TIME_LIMIT), self.output())
        self.assertIn("[rank 1]: load (train.py:5)", self.output())
        self.assertRegex(self.output(), SOON)
        self.assertNotIn("not done in time", self.output())

    def test_node_leaves_the_run_at_once_if_its_hung_worker_cannot_be_killed(self):
        _, stuck = self.mount_hung_file_system()
        command = f"[ $WORLD_SIZE = 1 ] && exit 0; exec {' '.join(self.hang_in_a_read())}"
        codes, host, other = self.run_two_nodes(command, command, options=["--hang_timeout=2"])
        self.assertEqual([0, 1], codes, host + other)
        self.assertRegex(other, "this node cannot start workers again: " + SOON)
        self.assertRegex(other, r"rank 1 \(pid \d+\) " + stuck)

    def hang_in_a_read(self):
        """A command whose last rank hangs in state D, while the others wait for it."""
        return [str(DDPRUN.with_name("flight_worker")), "host", "hang-read",
                str(self.folder / "mount" / "file")]

    @unittest.skipUnless(IS_LONG, "takes more than a minute; see --all")
    def test_node_whose_worker_cannot_be_killed_leaves_the_run(self):
        hang, stuck = self.mount_hung_file_system()
        codes, host, other = self.run_two_nodes(f"[ $WORLD_SIZE = 1 ] && exit 0; {FAIL}", hang)
        self.assertEqual([0, 1], codes, host + other)
        self.assertRegex(other, r"left the run after 1 attempt with exit code 1: this node cannot "
                         r"start workers again: rank 1 \(pid \d+\) " + stuck)


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
