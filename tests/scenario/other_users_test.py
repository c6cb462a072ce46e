"""Access by another user of a node to a run of root.

Usage: other_users_test.py DDPRUN
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
TIME_LIMIT = 60  # seconds
OTHER_USER = 54321  # no account has this number

WAITING = "import os, sys; print('port', os.environ['MASTER_PORT'], flush=True); sys.stdin.read()"

# The worker changes its user, as in a container with another user, and then uses the store.
DROPPING = f"""
import os, socket, struct
os.setgid({OTHER_USER}); os.setuid({OTHER_USER})
client = socket.socket()
client.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
client.sendall(b"\\x06")
print("keys", struct.unpack("<q", client.recv(8, socket.MSG_WAITALL))[0], flush=True)
"""

# A request for the number of keys, in the old dialect, which needs no greeting.
ASKING = """
import os, socket, sys
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
client = socket.socket()
client.connect(("127.0.0.1", int(sys.argv[1])))
try:
    client.sendall(b"\\x06")
    sys.stdout.buffer.write(client.recv(8, socket.MSG_WAITALL))
except OSError:
    pass
"""


def answer(port, user):
    """Returns the response of the store to a client of this user; empty if it is rejected."""
    done = subprocess.run([sys.executable, "-c", ASKING, str(port), str(user)],
                          stdout=subprocess.PIPE, timeout=TIME_LIMIT, check=True)
    return done.stdout


class OtherUsersTest(unittest.TestCase):
    def start(self, *options):
        process = subprocess.Popen(
            [DDPRUN, "--nproc_per_node=1", "--stdin=0", *options, "--no_python",
             sys.executable, "-c", WAITING],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        port = int(re.search(r"port (\d+)", process.stdout.readline()).group(1))
        return process, port

    def finish(self, process):
        _, errors = process.communicate("", timeout=TIME_LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        return errors

    def test_another_user_is_refused_by_the_workers_store(self):
        process, port = self.start()
        self.assertEqual(answer(port, OTHER_USER), b"")
        self.assertEqual(len(answer(port, 0)), 8)
        self.assertIn(f"refused a connection of user {OTHER_USER}; no worker of this run runs as "
                      "that user",
                      self.finish(process))

    def test_all_users_are_served_if_the_check_is_disabled(self):
        process, port = self.start("--rdzv_conf=check_users=0")
        self.assertEqual(len(answer(port, OTHER_USER)), 8)
        self.assertNotIn("refused", self.finish(process))

    def test_worker_that_changed_its_user_can_use_the_store(self):
        done = subprocess.run([DDPRUN, "--nproc_per_node=2", "--no_python", sys.executable, "-c",
                               DROPPING], capture_output=True, text=True, timeout=TIME_LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("keys 0"), 2, done.stdout + done.stderr)

    def test_unreadable_secret_is_reported_with_the_remedy(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o711)
        program = shutil.copy2(DDPRUN, folder)
        closed = folder / "closed"
        closed.mkdir(0o700)
        for path in (folder / "run.key", closed / "run.key"):
            path.write_text("0123456789abcdef" * 2)
            path.chmod(0o600)
            done = subprocess.run(
                [program, "--nnodes=2", "--rdzv_endpoint=127.0.0.1", "--node_rank=0",
                 f"--secret_file={path}", "--dry_run", "/bin/true"], cwd="/", user=OTHER_USER,
                group=OTHER_USER, extra_groups=[], capture_output=True, text=True,
                timeout=TIME_LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--secret_file={path}: Permission denied; give a copy that belongs to "
                          f"user {OTHER_USER}, in a folder that this user may enter\n", done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root can start processes of other users")
        sys.exit(77)
    unittest.main()
