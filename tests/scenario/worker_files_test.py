"""Files of a run in a folder of another user, which replaces parts of it during the run.

The agent is root, the other user has no account and owns the folder of --log_dir or TMPDIR. Root
reads, writes and removes files of the run only.

Usage: worker_files_test.py DDPRUN
Skipped (77) where the user is not root.
"""
import errno
import itertools
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children
from refusals import numbers_of, refuse

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
TIME_LIMIT = 60  # seconds
USER = 54321
OPENAT2 = numbers_of(["openat2"])["openat2"]
SECRET = "only-root-may-read-this"

# openat2(2) of the kernel, or refused as by old kernels and sandboxes.
KERNELS = {"openat2": None} | {
    f"no openat2: {errno.errorcode[error]}": lambda error=error: refuse(OPENAT2, error)
    for error in (errno.ENOSYS, errno.EPERM)}

# A worker that changes to the other user. `run`: the run's folder; `own`: a new one in its place.
PREAMBLE = f"""
import os, pathlib, sys, time
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
run = pathlib.Path(os.environ["TORCHELASTIC_ERROR_FILE"]).parents[2]
def become_other_user():
    os.setgroups([])
    os.setgid({USER})
    os.setuid({USER})
def swap():
    run.rename(run.parent / "moved")
    run.mkdir()
"""


class WorkerFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.home = self.make_folder("home", USER)
        self.vault = self.make_folder("vault", 0)
        self.addCleanup(lambda: self.assertEqual([], end_children(1)))

    def make_folder(self, name, owner):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        os.chown(folder, owner, owner)
        return folder

    def start(self, script, *options, program=DDPRUN, prepare=None, **variables):
        worker = self.folder / "worker.py"
        worker.write_text(PREAMBLE + script)
        self.output = self.folder / "output"
        self.events = self.folder / "events"
        with self.output.open("wb") as file:
            return subprocess.Popen(
                [program, f"--events={self.events}", *options, "--no_python", sys.executable,
                 worker], stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.folder,
                env={**os.environ, **variables}, umask=0o022, preexec_fn=prepare)

    def run_ddprun(self, script, *options, **settings):
        """Returns the exit code and all output of the run, including events and files."""
        process = self.start(script, *options, **settings)
        try:
            code = process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.fail(f"no end within {TIME_LIMIT} s: {self.output.read_text(errors='replace')}")
        return code, self.output.read_text(errors="replace") + self.events.read_text()

    def wait_for(self, condition, what):
        deadline = time.monotonic() + TIME_LIMIT
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not within {TIME_LIMIT} s: {what}")
            time.sleep(0.01)

    def test_report_reads_no_file_of_root_through_a_swapped_folder(self):
        (self.vault / "attempt_0/0").mkdir(parents=True)
        for place in (".", "0", "attempt_0/0"):
            (self.vault / place).mkdir(exist_ok=True)
            (self.vault / place / "error.json").write_text(json.dumps({"message": SECRET}))
        swaps = {
            "run": f"run.rmdir(); run.symlink_to({str(self.vault)!r})",
            "attempt": f"(run / 'attempt_0').symlink_to({str(self.vault)!r})",
            "worker": "(run / 'attempt_0').mkdir(); "
                      f"(run / 'attempt_0/0').symlink_to({str(self.vault)!r})",
        }
        for (name, swap), kernel in itertools.product(swaps.items(), KERNELS):
            with self.subTest(f"{name}, {kernel}"):
                self.make_folder("home", USER)
                code, output = self.run_ddprun(
                    f"become_other_user()\nswap()\n{swap}\nsys.exit(3)",
                    f"--log_dir={self.home}", prepare=KERNELS[kernel])
                self.assertEqual(1, code, output)
                self.assertIn("exit code 3", output)
                self.assertNotIn(SECRET, output)

    def test_output_goes_to_the_run_s_own_folder_after_a_swap(self):
        swaps = {
            "run": f"run.rmdir(); run.symlink_to({str(self.vault)!r})",
            "attempt": f"(run / 'attempt_1').symlink_to({str(self.vault)!r})",
            "worker": "(run / 'attempt_1').mkdir(); "
                      f"(run / 'attempt_1/0').symlink_to({str(self.vault)!r})",
        }
        for (name, swap), kernel in itertools.product(swaps.items(), KERNELS):
            with self.subTest(f"{name}, {kernel}"):
                self.make_folder("home", USER)
                self.make_folder("vault", 0)
                code, output = self.run_ddprun(
                    "become_other_user()\n"
                    "if attempt == 0:\n"
                    f"    swap()\n    {swap}\n    sys.exit(3)\n"
                    "print('the second attempt')",
                    f"--log_dir={self.home}", "--redirects=3", "--max_restarts=1",
                    prepare=KERNELS[kernel])
                self.assertEqual(0, code, output)
                self.assertEqual([], os.listdir(self.vault))
                log = self.home / "moved/attempt_1/0/stdout.log"
                self.assertEqual("the second attempt\n", log.read_text())

    def test_run_folder_is_private(self):
        link = self.folder / "link"
        link.symlink_to(self.home)
        code, output = self.run_ddprun("print('text')", f"--log_dir={link}/new/logs", "-r3")
        self.assertEqual(0, code, output)
        logs = self.home / "new/logs"
        run = next(logs.iterdir())
        modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (logs, run)]
        self.assertEqual([0o755, 0o700], modes)
        self.assertEqual("text\n", (run / "attempt_0/0/stdout.log").read_text())
        temporary = self.make_folder("temporary", 0)
        code, output = self.run_ddprun("pass", "-r3", TMPDIR=str(temporary))
        self.assertEqual(0, code, output)
        modes = {stat.S_IMODE(folder.stat().st_mode)
                 for folder in (next(temporary.glob("*")), next(temporary.glob("*/*")))}
        self.assertEqual({0o700}, modes)

    def test_a_link_in_log_dir_is_resolved_once(self):
        other = self.make_folder("other", USER)
        link = self.home / "link"
        link.symlink_to(other)
        code, output = self.run_ddprun(
            "become_other_user()\n"
            f"link = pathlib.Path({str(link)!r})\n"
            "if attempt == 0:\n"
            f"    link.unlink(); link.symlink_to({str(self.vault)!r})\n"
            "    sys.exit(3)\n",
            f"--log_dir={link}", "--redirects=3", "--max_restarts=1")
        self.assertEqual(0, code, output)
        self.assertEqual([], os.listdir(self.vault))
        self.assertEqual(1, len(list(other.glob("*/attempt_1/0/stdout.log"))))

    def test_removed_run_folder_is_created_again(self):
        code, output = self.run_ddprun(
            "import shutil\n"
            "if attempt == 0:\n    shutil.rmtree(run.parent)\n    sys.exit(3)\n",
            f"--log_dir={self.home}/logs", "--redirects=3", "--max_restarts=1")
        self.assertEqual(0, code, output)
        self.assertEqual(1, len(list(self.home.glob("logs/*/attempt_1/0/stdout.log"))))

    def swap_temporary_folder(self):
        """A script whose user replaces the temporary folder by one of root."""
        precious = self.home / "precious"
        precious.mkdir()
        (precious / "file").write_text("of root")
        return ("become_other_user()\n"
                "run.rename(run.parent / 'moved')\n"
                f"pathlib.Path({str(precious)!r}).rename(run)\n")

    def test_the_removal_of_a_temporary_folder_removes_no_other_folder(self):
        script = self.swap_temporary_folder()
        code, output = self.run_ddprun(script, TMPDIR=str(self.home))
        self.assertEqual(0, code, output)
        self.assertEqual(1, len(list(self.home.glob("ddprun-*/file"))))
        self.assertEqual([], os.listdir(self.home / "moved"))

    def test_guardian_removes_no_other_folder(self):
        done = self.home / "done"
        script = self.swap_temporary_folder() + f"open({str(done)!r}, 'w')\ntime.sleep(1000)"
        process = self.start(script, TMPDIR=str(self.home))
        self.wait_for(done.exists, "the swap")
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.wait_for(lambda: not os.listdir(self.home / "moved"), "the guardian's removal")
        self.assertEqual(1, len(list(self.home.glob("ddprun-*/file"))))

    def test_the_agent_s_own_error_file_overwrites_no_other_file(self):
        target = self.vault / "error.json"
        target.write_text(SECRET)
        place = self.home / "place"
        file = place / "error.json"
        swaps = {
            "file": f"file.symlink_to({str(target)!r})",
            "folder": "file.parent.rename(str(file.parent) + '.old'); "
                      f"file.parent.symlink_to({str(self.vault)!r})",
        }
        for name, swap in swaps.items():
            with self.subTest(name):
                self.make_folder("home", USER)
                place.mkdir()
                os.chown(place, USER, USER)
                code, output = self.run_ddprun(
                    f"become_other_user()\nfile = pathlib.Path({str(file)!r})\n{swap}\n"
                    "sys.exit(3)", TORCHELASTIC_ERROR_FILE=str(file))
                self.assertEqual(1, code, output)
                self.assertEqual(SECRET, target.read_text())

    def test_a_preflight_s_report_is_read_from_the_run_s_folder(self):
        program = self.folder / "ddprun"
        shutil.copy(DDPRUN, program)
        (self.vault / "preflight").mkdir()
        (self.vault / "preflight/report_0").write_text(f"device CPU\nremark {SECRET}\nend\n")
        look = self.folder / "ddprun-preflight"
        look.write_text(
            f"#!{sys.executable}\nimport os, pathlib, sys\n"
            "report = pathlib.Path(sys.argv[1])\n"
            "report.write_text('device CPU\\nend\\n')\n"
            f"os.setgroups([])\nos.setgid({USER})\nos.setuid({USER})\n"
            "run = report.parents[1]\n"
            "run.rename(run.parent / 'moved')\n"
            f"run.symlink_to({str(self.vault)!r})\n")
        look.chmod(0o755)
        code, output = self.run_ddprun("pass", "--preflight", f"--log_dir={self.home}",
                                       program=program)
        self.assertEqual(0, code, output)
        self.assertNotIn(SECRET, output)

    def test_a_preflight_writes_its_report_through_no_link(self):
        self.assertEqual(0, self.run_ddprun("pass", "--preflight")[0])
        target = self.vault / "target"
        target.write_text(SECRET)
        (self.home / "link").symlink_to(self.vault)
        (self.home / "file").symlink_to(target)
        for name in ("link/report", "file", "link/target"):
            with self.subTest(name):
                program = DDPRUN.parent / "ddprun-preflight"
                process = subprocess.run(
                    [DDPRUN, "--no_python", program, self.home / name], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT)
                self.assertEqual(1, process.returncode, process.stdout)
                self.assertIn(f"{self.home / name}: ".encode(), process.stdout)
        self.assertEqual(SECRET, target.read_text())
        self.assertEqual(["target"], os.listdir(self.vault))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: the user is not root")
        sys.exit(77)
    adopt_orphans()
    unittest.main()
