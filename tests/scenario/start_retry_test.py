"""Workers that temporarily cannot be started: the program is being written or replaced, processes
cannot be forked, or the disk is full.

Temporary errors cost no restart beyond the one at which they occur; persistent errors cost one
each; a program that has never run and cannot run ends the run at once.

Usage: start_retry_test.py DDPRUN
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from free_port import FreePort
from orphans import adopt_orphans, end_children

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
TIME_LIMIT = 60  # seconds
LOOK_AGAIN = 0.002  # seconds
RETRY_LIMIT = 10.0  # seconds; kStartRetryLimit
LEASE = 3  # seconds

# Crashes at its first start when the pipe of its rank is opened and closed. Needs no other process.
WORKER = """#!/bin/sh
echo "life $TORCHELASTIC_RESTART_COUNT of rank $RANK"
if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
  read line <"crash$RANK"
  exit 3
fi
"""


def in_time(condition, name):
    deadline = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {TIME_LIMIT} s: {name}")
        time.sleep(LOOK_AGAIN)


class Run:
    """A ddprun in a folder of its own, with its program."""

    def __init__(self, folder, options, then="", cgroup=None):
        self.folder = folder
        folder.mkdir()
        self.program = folder / "worker"
        self.program.write_text(WORKER + then)
        self.program.chmod(0o755)
        for rank in range(2):
            os.mkfifo(folder / f"crash{rank}")
        self.log = folder / "log"
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                [DDPRUN, *options, "--no_python", "./worker"], stdin=subprocess.DEVNULL,
                stdout=file, stderr=file, cwd=folder,
                preexec_fn=cgroup and (lambda: (cgroup / "cgroup.procs").write_text("0")))

    def output(self):
        return self.log.read_text(errors="replace")

    def until(self, text):
        in_time(lambda: text in self.output() or self.process.poll() is not None, text)
        if text not in self.output():
            raise AssertionError(f"'{text}' is missing in: {self.output()}")

    def crash(self, rank):
        self.until(f"life 0 of rank {rank}")
        (self.folder / f"crash{rank}").open("w").close()

    def wait(self):
        in_time(lambda: self.process.poll() is not None, "the end of the run")
        return self.process.returncode


class StartRetryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runs = []
        self.addCleanup(self.end_runs)

    def end_runs(self):
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
        end_children()

    def start(self, *options, name="run", **surroundings):
        self.runs.append(Run(self.folder / name, options, **surroundings))
        return self.runs[-1]

    def start_two_workers(self, restarts, **surroundings):
        run = self.start("--nproc_per_node=2", f"--max_restarts={restarts}", **surroundings)
        run.until("life 0 of rank 0")
        run.until("life 0 of rank 1")
        return run

    def check_restarted_once(self, run):
        self.assertEqual(0, run.wait(), run.output())
        self.assertEqual(1, run.output().count(": restarting"), run.output())
        self.assertEqual(1, run.output().count("; retrying for up to 10 s"), run.output())
        for rank in range(2):
            self.assertIn(f"life 1 of rank {rank}", run.output())

    def test_restart_waits_for_a_program_being_written(self):
        run = self.start_two_workers(restarts=1)
        with run.program.open("a"):
            try:
                subprocess.run([run.program], check=False, env={"TORCHELASTIC_RESTART_COUNT": "1"})
                self.skipTest("this kernel runs programs that are open for writing")
            except OSError:
                pass
            run.crash(0)
            run.until("worker: the file is open for writing")
        self.check_restarted_once(run)

    def test_restart_waits_for_a_program_being_replaced(self):
        run = self.start_two_workers(restarts=1)
        away = run.program.rename(self.folder / "away")
        run.crash(0)
        run.until("worker: the file does not exist")
        away.rename(run.program)
        self.check_restarted_once(run)

    def test_restart_waits_at_the_pids_limit(self):
        cgroup = self.make_pids_cgroup()
        # No worker fits beside ddprun and its guardian; or the workers fit, but not the thread that
        # watches them.
        for limit, step in (1, "worker: fork"), (4, "the workers: thread"):
            run = self.start_two_workers(restarts=1, name=str(limit), cgroup=cgroup)
            (cgroup / "pids.max").write_text(str(limit))
            run.crash(1)
            run.until(f"{step}: Resource temporarily unavailable (pids limit of cgroup {cgroup}: "
                      f"{limit})")
            (cgroup / "pids.max").write_text("max")
            self.check_restarted_once(run)

    def make_pids_cgroup(self):
        for parent in map(pathlib.Path, ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")):
            cgroup = parent / f"start-retry-test-{os.getpid()}"
            try:
                cgroup.mkdir()
            except OSError:
                continue
            self.addCleanup(cgroup.rmdir)
            self.addCleanup(self.end_runs)
            if (cgroup / "pids.max").exists():
                return cgroup
        self.skipTest("no cgroup with a pids limit can be made here")

    def make_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=16", "none", disk]
        if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        self.addCleanup(self.end_runs)
        return disk

    @staticmethod
    def fill(disk):
        fillers = []
        try:
            while True:
                fillers.append(disk / str(len(fillers)))
                fillers[-1].touch()
        except OSError:
            fillers.pop()
        return fillers

    def test_first_start_retries_on_a_full_disk(self):
        disk = self.make_disk()
        fillers = self.fill(disk)
        fillers.pop().unlink()  # for one of the new folders
        events = self.folder / "events"
        run = self.start(f"--log_dir={disk}/new/logs", f"--events={events}")
        run.until("No space left on device; choose a folder that is writable and has free space; "
                  "retrying for up to 10 s")
        self.assertEqual(1, run.wait(), run.output())
        self.assertEqual({filler.name for filler in fillers}, set(os.listdir(disk)))
        event = next(json.loads(line) for line in events.read_text().splitlines()
                     if "worker_not_started" in line)
        self.assertEqual(("files", False), (event["step"], event["ends_the_run"]))
        run = self.start(f"--log_dir={disk}/new/logs", name="later")
        run.until("; retrying for up to 10 s")
        for filler in fillers:
            filler.unlink()
        run.crash(0)
        run.wait()
        self.assertIn("life 0 of rank 0", run.output())

    def test_restart_retries_on_a_full_disk_of_the_log_folder(self):
        disk = self.make_disk()
        run = self.start("--max_restarts=1", f"--log_dir={disk}")
        run.until("life 0 of rank 0")
        fillers = self.fill(disk)
        run.crash(0)
        run.until("; retrying for up to 10 s")
        for filler in fillers:
            filler.unlink()
        self.assertEqual(0, run.wait(), run.output())

    def test_sigterm_ends_a_pause(self):
        run = self.start_two_workers(restarts=1)
        run.program.unlink()
        run.crash(0)
        run.until("; retrying for up to 10 s")
        begin = time.monotonic()
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, run.wait(), run.output())
        self.assertLess(time.monotonic() - begin, RETRY_LIMIT / 2)

    def test_persistent_errors_cost_restarts(self):
        last = self.start_two_workers(restarts=1, name="last")
        other = self.start_two_workers(restarts=2, name="other")
        begin = time.monotonic()
        for run in (last, other):
            run.away = run.program.rename(self.folder / (run.folder.name + "-away"))
            run.crash(0)
        other.until("rank 0 could not be started; restart 2 of 2")
        other.away.rename(other.program)
        self.assertGreaterEqual(time.monotonic() - begin, RETRY_LIMIT)
        self.assertEqual(0, other.wait(), other.output())
        self.assertIn("life 2 of rank 1", other.output())
        self.assertEqual(1, last.wait(), last.output())
        self.assertIn("rank 0 could not be started; the only restart is used", last.output())
        report = last.output().partition("Root cause")[2]
        self.assertRegex(report, "message +: cannot start .*worker: the file does not exist")

    def test_invalid_program_at_the_first_start_ends_the_run(self):
        program = self.folder / "worker"
        with open(DDPRUN, "rb") as ddprun:
            program.write_bytes(ddprun.read(100))  # a damaged ELF file
        program.chmod(0o755)
        begin = time.monotonic()
        result = subprocess.run([DDPRUN, "--max_restarts=9", "--no_python", program],
                                capture_output=True, text=True, check=False)
        self.assertEqual(1, result.returncode, result.stderr)
        self.assertIn("it is a damaged program or a library", result.stderr)
        self.assertNotIn("retrying", result.stderr)
        self.assertLess(time.monotonic() - begin, RETRY_LIMIT / 2)

    def test_node_that_retries_keeps_its_lease(self):
        with FreePort() as port:
            options = ["--nnodes=2", "--max_restarts=1", "--security=open", "--rdzv_backend=c10d",
                       f"--rdzv_endpoint=127.0.0.2:{port.number}"]
            conf = f"--rdzv_conf=lease_timeout={LEASE},is_host="
            # Its second attempt lasts until the other node would have lost its lease.
            host = self.start(*options, "--local_addr=127.0.0.2", conf + "1", name="host",
                              then=f"sleep {LEASE + 1}; : >waited\n")
            node = self.start(*options, "--local_addr=127.0.0.3", conf + "0", name="node")
            host.until("life 0 of rank 0")
            node.until("life 0 of rank 1")
            away = node.program.rename(self.folder / "away")
            host.crash(0)
            node.until("; retrying for up to 10 s")
            in_time((host.folder / "waited").exists, "the end of the lease")
            away.rename(node.program)
            for run in (host, node):
                self.assertEqual(0, run.wait(), run.output())
            self.assertEqual(1, host.output().count("restarting: "), host.output())
            self.assertIn("life 1 of rank 1", node.output())


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
