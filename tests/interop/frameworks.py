"""Programs of frameworks from PyPI have the same results under ddprun and torchrun.

Skipped if the interpreter lacks a package of frameworks/requirements.txt: scripts/test
--interop-pypi installs them.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from harness import INTERPRETER, SKIPPED, RunTest, main

FOLDER = pathlib.Path(__file__).parent / "frameworks"
PACKAGES = ("accelerate", "lightning", "transformers")
WORKERS = "--nproc_per_node=2"
PREFIX = re.compile(r"^\[default\d+\]:", re.MULTILINE)
RESULT = re.compile(r"^(?:epoch|step|sum) .*$", re.MULTILINE)


def results(output):
    return RESULT.findall(PREFIX.sub("", output))


class FrameworksTest(RunTest):
    def torchrun(self, job, **environment):
        """Returns exit code and results."""
        with tempfile.TemporaryDirectory() as folder:
            command = [INTERPRETER, "-m", "torch.distributed.run", WORKERS, FOLDER / job]
            done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, text=True,
                                  timeout=200, check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        return done.returncode, results(done.stdout)

    def ours(self, job, *options, **environment):
        run = self.run_ddprun(WORKERS, *options, FOLDER / job, environment=environment)
        return run.code, results(run.stdout), run.stderr

    def compare(self, job, minimum):
        code, expected = self.torchrun(job)
        self.assertEqual(code, 0, job)
        self.assertGreaterEqual(len(expected), minimum, expected)
        for options in ((), ("--preload=auto",)):
            code, own, messages = self.ours(job, *options)
            self.assertEqual((code, own), (0, expected), messages)
        code, partial = self.torchrun(job, FAILS="1")
        own_code, own, messages = self.ours(job, FAILS="1")
        self.assertEqual(own_code, code, messages)
        self.assertEqual(own[:len(partial)], partial[:len(own)])
        self.assertRegex(messages, r"Root cause.*\n  rank      : 1 ")
        return expected

    def test_accelerate(self):
        self.compare("accelerate_job.py", 3)

    def test_transformers(self):
        self.compare("transformers_job.py", 4)

    def test_lightning(self):
        expected = self.compare("lightning_job.py", 3)
        code, own, messages = self.ours("lightning_job.py", BACKEND="ddprun")
        self.assertEqual((code, own), (0, expected), messages)

    def test_sharded_models_and_checkpoints(self):
        expected = self.compare("sharded_job.py", 1)
        code, own, messages = self.ours("sharded_job.py", BACKEND="ddprun")
        self.assertEqual((code, own), (0, expected), messages)

    def test_a_hang_of_preloaded_workers_names_the_collective_of_pytorch(self):
        run = self.run_ddprun(WORKERS, "--preload=torch", "--hang_timeout=3", "--on_hang=stop",
                              FOLDER.parent / "hangs.py")
        self.assertEqual(run.code, 1, run.stderr)
        self.assertRegex(run.stderr, "rank 1 has not entered collective 1 of group \"default_pg\", "
                         r"all_reduce\(1 x float32\) of 4 bytes; rank 0 waits in it, for up to")
        self.assertIn("taken by a thread of the worker", run.stderr)


def skip_without_packages():
    names = ", ".join(repr(name) for name in PACKAGES)
    look = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ({names}))))"
    if subprocess.run([INTERPRETER, "-c", look], check=False).returncode != 0:
        print(f"skipped: {INTERPRETER} lacks one of {names}")
        sys.exit(SKIPPED)


if __name__ == "__main__":
    skip_without_packages()
    main()
