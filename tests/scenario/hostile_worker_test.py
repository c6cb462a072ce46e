"""Workers that write to forbidden places: in the control page and through their error files.

The run continues by its rules: the damage is a failure of that worker and costs a restart, and the
output shows no file that the worker must not read.

Usage: hostile_worker_test.py DDPRUN
"""
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
TIME_LIMIT = 60  # seconds
WORKERS = 3
SPIN = 1.0  # seconds
RANDOM_PAGES = 8

# Common part of all attacks. Rank 1 attacks in the first attempt; all others wait to be stopped
# there, and succeed in the second.
PREAMBLE = f"""
import ctypes, mmap, os, random, signal, sys, time
RANK = int(os.environ["RANK"])
fd = int(os.environ["DDPRUN_CONTROL_FD"])
page = mmap.mmap(fd, os.fstat(fd).st_size)
HEADER = 2 * 4096
PART = (len(page) - HEADER) // {WORKERS}
FUTEX = {{"x86_64": 202, "aarch64": 98}}["{platform.machine()}"]
libc = ctypes.CDLL(None)

def wake():
    word = ctypes.c_uint32.from_buffer(page, 4096)
    word.value += 1
    libc.syscall(FUTEX, ctypes.byref(word), 1, 1, None, None, 0)

if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
    sys.exit(0)
if RANK != 1:
    time.sleep(1000)
"""

SIZES = "page[8:16] = (0x7fffffff).to_bytes(4, 'little') * 2"
SHRINK = """
for size in (0, 1, len(page) * 2):
    try:
        os.ftruncate(fd, size)
    except PermissionError:
        continue
    sys.exit("the page can be resized")
"""
FILL = """
random.seed({seed})
page[{begin}:] = random.randbytes(len(page) - {begin})
"""
DAMAGE = "page[HEADER + PART:HEADER + PART + 128] = b'\\xff' * 128"
# Announces the exits of all workers with status 0.
EXITS = f"""
for rank in range({WORKERS}):
    at = HEADER + rank * PART + 40
    page[at:at + 8] = (2).to_bytes(4, "little") + bytes(4)
wake()
"""
WRITE_AND_WAKE = f"""
end = time.monotonic() + {SPIN}
while time.monotonic() < end:
    at = HEADER + PART + random.choice([32, 40, 44, 48, 4096, 4128]) + random.randrange(4)
    page[at] = random.randrange(256)
    wake()
"""


class HostileWorkerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(lambda: self.assertEqual([], end_children(1)))

    def run_ddprun(self, script, *options):
        """Returns the exit code, the output and the agent's own processor time."""
        program = self.folder / "worker.py"
        program.write_text(PREAMBLE + script)
        output = self.folder / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [DDPRUN, f"--nproc_per_node={WORKERS}", *options, "--no_python", sys.executable,
                 program], stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.folder)
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        deadline = time.monotonic() + TIME_LIMIT
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                self.fail(f"no end within {TIME_LIMIT} s: {output.read_text(errors='replace')}")
            time.sleep(0.01)
        ticks = stat.read_text().rpartition(")")[2].split()[11:13]
        processor_time = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return process.wait(), output.read_text(errors="replace"), processor_time

    def test_worker_that_damages_the_page_and_fails_is_restarted(self):
        attacks = {"sizes": SIZES, "size of the file": SHRINK, "own part": DAMAGE}
        for seed in range(RANDOM_PAGES):
            # With and without the page of all workers.
            attacks[f"page {seed}"] = FILL.format(seed=seed, begin="HEADER" if seed % 2 else "0")
        for name, attack in attacks.items():
            with self.subTest(name):
                code, output, _ = self.run_ddprun(attack + "\nsys.exit(3)", "--max_restarts=1")
                self.assertEqual(0, code, output)
                self.assertIn("rank 1", output)

    def test_damage_of_a_workers_page_part_is_a_failure(self):
        script = f"{DAMAGE}\nwake()\ntime.sleep(1000)"
        code, output, _ = self.run_ddprun(script, "--max_restarts=1")
        self.assertEqual(0, code, output)
        code, output, _ = self.run_ddprun(script)
        self.assertEqual(1, code, output)
        self.assertIn("memory shared with ddprun: the part of this worker was overwritten "
                      "(phase 4294967295)",
                      output)
        self.assertIn("Root cause (first failure observed):\n  rank      : 1 ", output)

    def test_worker_that_announces_success_and_fails_has_failed(self):
        code, output, _ = self.run_ddprun(EXITS + "\nsys.exit(3)", "--shutdown_timeout=1")
        self.assertEqual(1, code, output)
        self.assertIn("rank 1 ", output)
        self.assertIn("failed with exit code 3", output)

    def test_endless_writes_and_wakes_do_not_occupy_the_agent(self):
        code, output, processor_time = self.run_ddprun(WRITE_AND_WAKE + "\nsys.exit(3)",
                                                       "--max_restarts=1")
        self.assertEqual(0, code, output)
        self.assertLess(processor_time, SPIN / 2)

    def test_error_file_cannot_redirect_to_another_file(self):
        secret = self.folder / "secret"
        secret.write_text("the secret")
        attacks = {
            "symbolic link": f"os.symlink({str(secret)!r}, file)",
            "hard link": f"os.link({str(secret)!r}, file)",
            "FIFO": "os.mkfifo(file)",
            "folder": "os.mkdir(file)",
            "large": "open(file, 'wb').write(random.randbytes(1 << 22))",
            "endless": "open(file, 'wb').truncate(1 << 40)",
        }
        for name, attack in attacks.items():
            with self.subTest(name):
                code, output, _ = self.run_ddprun(
                    f"file = os.environ['TORCHELASTIC_ERROR_FILE']\n{attack}\nsys.exit(3)")
                self.assertEqual(1, code, output)
                self.assertIn("exit code 3", output)
                self.assertNotIn("secret", output)
                self.assertLess(len(output), 1 << 16)


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
