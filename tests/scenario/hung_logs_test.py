"""Log files on a file system that hangs do not affect supervision and end of a run.

A small ext4 on a loop device is frozen, so that its writers are in uninterruptible sleep. Skipped
(77) if that is not permitted.

Usage: hung_logs_test.py DDPRUN
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DDPRUN = pathlib.Path(sys.argv[1]).resolve()
TIME_LIMIT = 60  # seconds
# ddprun replaces $$ by $.
WORKER = "echo $$$$ >>{pids}; while :; do echo a line; sleep 0.01; done"


def run(*command):
    output = subprocess.DEVNULL
    return subprocess.run(command, stdout=output, stderr=output).returncode == 0


def wait_until(condition, what):
    deadline = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not within {TIME_LIMIT} s: {what}")
        time.sleep(0.01)


def is_alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def test(folder, mount):
    pids, report = folder / "pids", folder / "report"
    with report.open("wb") as file:
        process = subprocess.Popen(
            [DDPRUN, "--nproc_per_node=2", "--redirects=3", f"--log_dir={mount}", "--no_python",
             "sh", "-c", WORKER.format(pids=pids)], stderr=file)

    def have_logs():
        return len([log for log in mount.rglob("stdout.log") if log.stat().st_size > 0]) == 2
    try:
        wait_until(have_logs, "logs")
        if not run("fsfreeze", "--freeze", mount):
            return 77
        process.send_signal(signal.SIGTERM)
        workers = [int(pid) for pid in pids.read_text().split()]
        wait_until(lambda: not any(map(is_alive, workers)), "the end of the workers")
        wait_until(lambda: b"missing from log files" in report.read_bytes(),
                   "the report of what was lost")
        assert b"interrupted by SIGTERM" in report.read_bytes(), report.read_text()
    finally:
        run("fsfreeze", "--unfreeze", mount)
        process.terminate()
        code = process.wait()
    assert code == 128 + signal.SIGTERM, code
    return 0


def main():
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze", "mount"))):
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image, mount = folder / "image", folder / "mount"
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(16 << 20)
        if not run("mkfs.ext4", "-q", image) or not run("mount", "-o", "loop", image, mount):
            return 77
        try:
            return test(folder, mount)
        finally:
            run("umount", mount)


if __name__ == "__main__":
    sys.exit(main())
