"""Runs under inherited conditions: ignored and blocked signals, closed descriptors,
low limits, refused system calls, a namespace without /proc or cgroups.

Under each condition a run works or ends with one clear error. A failed run is never reported as a
success, SIGTERM ends every run, and no run spins.

Usage: inherited_test.py DDPRUN [--all]
With --all, each condition in more forms: by hand, about three minutes.
"""
import errno
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children
from refusals import numbers_of, refuse

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
IS_LONG = "--all" in sys.argv
if IS_LONG:
    sys.argv.remove("--all")
TIME_LIMIT = 60  # seconds
LOOK_AGAIN = 0.002  # seconds
PROCESSOR_TIME_MAX = 2.0  # seconds, for ddprun and its workers
ERROR_LINES_MAX = 6

SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})

# System calls that ddprun or its libraries use, by strace, and their likely substitutes. Without
# those left out the C library ends each program (futex, mprotect, openat, ...).
SYSTEM_CALLS = """
accept accept4 bind capget chdir clone3 close_range connect dup2 dup3 epoll_create1 epoll_ctl
epoll_pwait epoll_wait eventfd2 fcntl flock fsync ftruncate getcwd getdents64 getpeername getpgid
getpgrp getpriority getrandom getrusage getsockname getsockopt gettid ioctl kill listen lseek
memfd_create mkdir mkdirat openat2 pidfd_getfd pidfd_open pidfd_send_signal pipe2 poll ppoll prctl
prlimit64 pwrite64 readlink readlinkat recvfrom recvmsg rmdir rseq rt_sigaction rt_sigprocmask
sched_getaffinity sched_setaffinity sched_yield sendmsg sendto set_mempolicy set_robust_list
setsid setsockopt shutdown sigaltstack signalfd4 socket socketpair statfs statx sysinfo tgkill
timerfd_create timerfd_settime umask uname unlink unlinkat waitid wait4 writev
""".split()


class Result:
    def __init__(self, exit_code, output, processor_time):
        self.exit_code = exit_code
        self.output = output
        self.processor_time = processor_time


def without(folder):
    """Runs a command with that folder empty."""
    return ["unshare", "--mount", "/bin/sh", "-c", f'mount -t tmpfs none {folder} && exec "$@"',
            "sh"]


class InheritedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(end_children)

    def run_ddprun(self, script, prepare, options=(), wrapper=(), stop_when=None):
        """`prepare` is called between fork and exec. With `stop_when`, a file, SIGTERM is sent once
        it exists."""
        output = self.folder / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*wrapper, DDPRUN, "--nproc_per_node=2", *options, "--no_python", "/bin/sh", "-c",
                 script], stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=prepare,
                restore_signals=False, cwd=self.folder)
        deadline = time.monotonic() + TIME_LIMIT
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            if stop_when and stop_when.exists():
                process.send_signal(signal.SIGTERM)
                stop_when = None
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                self.fail(f"no end within {TIME_LIMIT} s: {output.read_text(errors='replace')}")
            time.sleep(LOOK_AGAIN)
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        return Result(process.returncode, output.read_text(errors="replace"),
                      usage.ru_utime + usage.ru_stime)

    def check_row(self, name, prepare, wrapper=(), works=None, sees_output=True):
        """`works`: True if the run must work; None if it may be rejected, too."""
        if not works and not self.is_any_program_possible(prepare, wrapper):
            print(f"skipped: {name}: no program can be started")
            return
        with self.subTest(name):
            self.check_success(prepare, wrapper, works, sees_output)
        with self.subTest(name + ", workers that fail"):
            self.check_failure(prepare, wrapper, works, sees_output)
        with self.subTest(name + ", SIGTERM"):
            self.check_stop(prepare, wrapper, works)

    def is_any_program_possible(self, prepare, wrapper):
        """Returns False if not even the dynamic linker works."""
        version = subprocess.run([*wrapper, DDPRUN, "--version"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 preexec_fn=prepare, restore_signals=False, check=False,
                                 timeout=TIME_LIMIT)
        return version.returncode in {0, 1}

    def check_error(self, result, sees_output):
        """Checks the error of a run that does not start its workers."""
        self.assertGreater(result.exit_code, 0, result.output)
        if not sees_output:
            return
        # The number of replaced guardians until the run ends depends on timing. A start that was
        # retried ends with the report of a failed run.
        messages = result.output.partition("\n====")[0]
        lines = [line for line in messages.splitlines()
                 if line and "another one (pid" not in line and not line.endswith("]:worked")]
        self.assertTrue(lines, "no message")
        self.assertLessEqual(len(lines), ERROR_LINES_MAX, result.output)
        for text in ("Bad file descriptor", "boost", "terminate called", "what():"):
            self.assertNotIn(text, result.output)

    def check_success(self, prepare, wrapper, works, sees_output):
        result = self.run_ddprun("echo worked", prepare, wrapper=wrapper)
        self.assertLess(result.processor_time, PROCESSOR_TIME_MAX)
        if works is None:
            works = result.exit_code == 0
        if not works:
            self.check_error(result, sees_output)
            return
        self.assertEqual(0, result.exit_code, result.output)
        if sees_output:
            self.assertEqual(2, result.output.count("worked"), result.output)

    def check_failure(self, prepare, wrapper, works, sees_output):
        result = self.run_ddprun("exit 3", prepare, ["--max_restarts=1"], wrapper)
        self.assertLess(result.processor_time, PROCESSOR_TIME_MAX)
        self.assertEqual(1, result.exit_code, result.output)
        if works and sees_output:
            self.assertIn("exit code 3", result.output)

    def check_stop(self, prepare, wrapper, works):
        started = self.folder / "started"
        started.unlink(missing_ok=True)
        begin = time.monotonic()
        # If signals cannot be blocked, SIGTERM is lost on a worker that is not yet in execve: it
        # still has the agent's handler.
        result = self.run_ddprun(f": >{started}; exec sleep 1000", prepare,
                                 ["--shutdown_timeout=5"], wrapper, stop_when=started)
        self.assertLess(time.monotonic() - begin, TIME_LIMIT / 2, result.output)
        self.assertLess(result.processor_time, PROCESSOR_TIME_MAX)
        self.assertIn(result.exit_code, {128 + signal.SIGTERM} if works else
                      {1, 128 + signal.SIGTERM}, result.output)
        self.assertEqual([], end_children(1))

    def test_each_signal(self):
        for number in SIGNALS:
            def ignore():
                signal.signal(number, signal.SIG_IGN)

            def block():
                signal.pthread_sigmask(signal.SIG_BLOCK, {number})

            self.check_row(f"{number} ignored and blocked", lambda: (ignore(), block()), works=True)
            if IS_LONG:
                self.check_row(f"{number} ignored", ignore, works=True)
                self.check_row(f"{number} blocked", block, works=True)

    def test_all_signals_ignored_and_blocked(self):
        def ignore():
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)

        def block():
            signal.pthread_sigmask(signal.SIG_SETMASK, SIGNALS)

        self.check_row("all ignored", ignore, works=True)
        self.check_row("all blocked", block, works=True)
        self.check_row("all ignored and blocked", lambda: (ignore(), block()), works=True)

    def test_standard_streams_closed(self):
        for number in range(1, 8):
            closed = [fd for fd in range(3) if number >> fd & 1]
            self.check_row(f"closed: {closed}", lambda: [os.close(fd) for fd in closed],
                           works=True if closed == [0] else None,
                           sees_output=not {1, 2} & set(closed))

    def test_low_limits(self):
        for name in (name for name in dir(resource) if name.startswith("RLIMIT_")):
            kind = getattr(resource, name)
            most = resource.getrlimit(kind)[1]
            for limit in (0, 1, 1 << 10, 1 << 20, 1 << 26) if IS_LONG else (0, 1 << 20):
                if most != resource.RLIM_INFINITY:
                    limit = min(limit, most)
                if kind == resource.RLIMIT_CPU:
                    limit = max(limit, 60)  # the kernel kills each program that has used less
                self.check_row(f"{name} {limit}", lambda: resource.setrlimit(kind, (limit, limit)),
                               sees_output=kind != resource.RLIMIT_FSIZE or limit > 1 << 10)

    def test_umask(self):
        for mask in (0, 0o777):
            self.check_row(f"umask {mask:o}", lambda: os.umask(mask), works=True)

    def test_refused_system_calls(self):
        for name, number in numbers_of(SYSTEM_CALLS).items():
            for error in (errno.EPERM, errno.ENOSYS) if IS_LONG else (errno.EPERM,):
                self.check_row(f"{name} fails with {errno.errorcode[error]}",
                               lambda: refuse(number, error))
        # The user of a client is then found in /proc/net/tcp.
        number = numbers_of(["socket"])["socket"]
        self.check_row("no AF_NETLINK",
                       lambda: refuse(number, errno.EAFNOSUPPORT, socket.AF_NETLINK), works=True)

    def test_missing_files_of_the_system_are_one_error_before_any_start(self):
        if subprocess.run([*without("/mnt"), "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("mount namespaces are not permitted here")
        for folder, error in ("/proc", "/proc: .*; mount it"), ("/dev", "/dev/null: .*; create it"):
            result = self.run_ddprun("echo worked", None, wrapper=without(folder))
            self.assertEqual(1, result.exit_code)
            self.assertRegex(result.output, rf"^ddprun: {error} [^\n]*\n$")

    def test_error_files_below_a_relative_tmpdir(self):
        (self.folder / "temporary").mkdir()
        script = """cd / && echo '{"message": "as reported"}' > $TORCHELASTIC_ERROR_FILE; exit 3"""
        result = self.run_ddprun(script, lambda: os.environ.update(TMPDIR="temporary"))
        self.assertEqual(1, result.exit_code)
        self.assertIn("as reported", result.output)

    def test_namespaces(self):
        if subprocess.run([*without("/mnt"), "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("mount namespaces are not permitted here")
        for folder in ("/proc", "/sys/fs/cgroup", "/sys", "/dev/shm"):
            self.check_row(f"empty {folder}", None, without(folder))


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
