"""Reports of ddprun about failed PyTorch workers, and the error passed to a launcher above it."""
import json
import os
import pathlib
import re
import subprocess

import harness

HERE = pathlib.Path(__file__).parent
FAILS = HERE / "fails.py"
# For both workers and ddprun; a worker that has only imported PyTorch takes about 250 MiB.
MEMORY_LIMIT = 1 << 30

# Reads an error file like torchelastic's agent.
READ_ERROR_FILE = """
import sys
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
failure = ProcessFailure(local_rank=0, pid=1, exitcode=1, error_file=sys.argv[1])
print(failure.message["message"], failure.timestamp)
"""


class LimitedMemory:
    """A memory cgroup, if this user may create one."""

    def __init__(self, limit):
        version_1 = pathlib.Path("/sys/fs/cgroup/memory")
        name = f"ddprun-interop-{os.getpid()}"
        if version_1.is_dir():
            self.folder, limit_file = version_1 / name, "memory.limit_in_bytes"
        else:
            self.folder, limit_file = pathlib.Path("/sys/fs/cgroup") / name, "memory.max"
        self.folder.mkdir()
        try:
            (self.folder / limit_file).write_text(str(limit))
        except OSError:
            self.folder.rmdir()
            raise

    def command(self, *command):
        """Runs the command within the limit."""
        return "/bin/sh", "-c", f'echo $$ >{self.folder}/cgroup.procs; exec "$@"', "sh", *command


class Reports(harness.RunTest):
    def field(self, run, name):
        """A field of the report's root cause."""
        self.assertIn("Root cause", run.stderr)
        found = re.search(rf"^  {name} +: (.*)$", run.stderr, re.MULTILINE)
        return found and found[1]

    def test_recorded_exception_is_the_root_cause(self):
        run = self.run_ddprun("--nproc_per_node=2", FAILS, "raise",
                              environment={"TORCHELASTIC_ERROR_FILE": "error.json"})
        self.assertEqual(run.code, 1)
        self.assertRegex(self.field(run, "rank"), r"^1 \(local_rank: 1, pid: \d+\)$")
        self.assertEqual(self.field(run, "ended"), "exit code 1")
        self.assertEqual(self.field(run, "message"), "KeyError: 'boom'")
        self.assertRegex(self.field(run, "recorded"), r"^20\d\d-.* UTC$")
        # PyTorch 2 puts the rank before each line.
        self.assertRegex(run.stderr, r'    \| (\[rank1\]: )?    raise KeyError\("boom"\)')

        # For the launcher above: rank 1's error, not that of the rank that waited for it.
        error_file = run.folder / "error.json"
        error = json.loads(error_file.read_text())["message"]
        self.assertEqual(error["errorCode"], 1)
        self.assertIn("in main", error["extraInfo"]["py_callstack"])
        seen = subprocess.run([harness.INTERPRETER, "-c", READ_ERROR_FILE, str(error_file)],
                              check=True, capture_output=True, text=True).stdout
        self.assertEqual(seen.strip(), f"KeyError: 'boom' {error['extraInfo']['timestamp']}")

    def test_fatal_signal_is_named(self):
        run = self.run_ddprun("--nproc_per_node=2", "--exit_code=worker", FAILS, "signal")
        self.assertEqual(run.code, 128 + 11)
        self.assertTrue(self.field(run, "rank").startswith("1 "))
        self.assertEqual(self.field(run, "ended"), "killed by signal 11, SIGSEGV")
        self.assertIn("    | Fatal Python error: Segmentation fault", run.stderr)

    def test_lack_of_memory_is_named(self):
        try:
            memory = LimitedMemory(MEMORY_LIMIT)
        except OSError as error:
            self.skipTest(f"no memory cgroup can be made here: {error}")
        self.addCleanup(memory.folder.rmdir)
        run = harness.Run(*memory.command(self.ddprun, "--nproc_per_node=2", "--exit_code=worker",
                                          FAILS, "memory"))
        self.addCleanup(run.close)
        self.finish(run)
        self.assertEqual(run.code, 128 + 9)
        self.assertEqual(self.field(run, "ended"), "killed by signal 9, SIGKILL (out of memory)")


if __name__ == "__main__":
    harness.main()
