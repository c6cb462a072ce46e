"""Programs of frameworks from PyPI have the same results under ddprun and torchrun.

A test is skipped if the interpreter lacks its package of frameworks/requirements.txt: scripts/test
--interop-pypi installs them.
"""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from harness import INTERPRETER, SKIPPED, TIME_LIMIT, Run, RunTest, main, wait_until

FOLDER = pathlib.Path(__file__).parent / "frameworks"
PACKAGES = ("accelerate", "deepspeed", "lightning", "torchft", "torchx", "transformers")
WORKERS = "--nproc_per_node=2"
PREFIX = re.compile(r"^\[default\d+\]:", re.MULTILINE)
TORCHX_PREFIX = re.compile(r"^.*/0 \[\d+\]:", re.MULTILINE)
RESULT = re.compile(r"^(?:epoch|step|sum) .*$", re.MULTILINE)
TORCHRUN = (INTERPRETER, "-m", "torch.distributed.run")


def results(output):
    return RESULT.findall(PREFIX.sub("", output))


def present(packages):
    look = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
    return subprocess.run([INTERPRETER, "-c", look, *packages], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split()


PRESENT = present(PACKAGES)


def needs(package):
    return unittest.skipUnless(package in PRESENT, f"{INTERPRETER} lacks {package}")


@contextlib.contextmanager
def lighthouse():
    """Hosts torchft's lighthouse; returns the environment of the replica groups."""
    with subprocess.Popen([INTERPRETER, FOLDER / "lighthouse.py"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        address = process.stdout.readline().strip()
        yield [{"TORCHFT_LIGHTHOUSE": address, "REPLICA_GROUP_ID": group} for group in "01"]
        process.stdin.close()
        process.wait(TIME_LIMIT)


class FrameworksTest(RunTest):
    def torchrun(self, job, **environment):
        """Returns exit code and results."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*TORCHRUN, WORKERS, FOLDER / job], cwd=folder,
                                  env={**os.environ, **environment}, text=True,
                                  timeout=TIME_LIMIT, check=False, stdout=subprocess.PIPE,
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

    @needs("accelerate")
    def test_accelerate(self):
        self.compare("accelerate_job.py", 3)

    @needs("transformers")
    def test_transformers(self):
        self.compare("transformers_job.py", 4)

    @needs("lightning")
    def test_lightning(self):
        expected = self.compare("lightning_job.py", 3)
        code, own, messages = self.ours("lightning_job.py", BACKEND="ddprun")
        self.assertEqual((code, own), (0, expected), messages)

    @needs("deepspeed")
    def test_deepspeed(self):
        self.compare("deepspeed_job.py", 3)

    def torchft_under_torchrun(self, **environment):
        """Returns exit code and results of each replica group."""
        with lighthouse() as groups, tempfile.TemporaryDirectory() as folder:
            runs = [subprocess.Popen([*TORCHRUN, "--max_restarts=1", FOLDER / "torchft_job.py"],
                                     cwd=folder, env={**os.environ, **group, **environment},
                                     text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    for group in groups]
            outputs = [run.communicate(timeout=TIME_LIMIT)[0] for run in runs]
        return [(run.returncode, results(output)) for run, output in zip(runs, outputs)]

    def torchft_under_ours(self, *options, **environment):
        """Returns exit code and results of each replica group, and the messages of the second."""
        with lighthouse() as groups:
            runs = [self.start("--max_restarts=1", *options, FOLDER / "torchft_job.py",
                               environment={**group, **environment}) for group in groups]
            wait_until(lambda: all(run.process.poll() is not None for run in runs))
        for run in runs:
            self.finish(run)
        return [(run.code, results(run.stdout)) for run in runs], runs[1].stderr

    @needs("torchft")
    def test_torchft_recovers_a_replica_group(self):
        expected = self.torchft_under_torchrun(FAILS="1")
        for code, lines in expected:
            self.assertEqual((code, len(lines)), (0, 8), expected)
        own, messages = self.torchft_under_ours()
        self.assertEqual(own, expected, messages)
        self.assertNotIn("restarting", messages)
        for options in ((), ("--preload=auto",)):
            own, messages = self.torchft_under_ours(*options, FAILS="1")
            self.assertEqual(own, expected, messages)
            self.assertRegex(messages, r"restarting: rank 0 .* failed with exit code 3; restart 1")

    def torchx(self, torchrun, **environment):
        """Returns exit code, results and messages of a job for which TorchX starts torchrun."""
        run = Run(INTERPRETER, "-m", "torchx.cli.main", "run", "-s", "local_cwd", "-cfg",
                  "log_dir=logs", "dist.ddp", "-j", "1x2", "--script", FOLDER / "sharded_job.py",
                  environment={"PATH": f"{torchrun.parent}:{os.environ['PATH']}", **environment})
        self.addCleanup(run.close)
        self.finish(run)
        return run.code, results(TORCHX_PREFIX.sub("", run.stderr)), run.stderr

    @needs("torchx")
    def test_torchx(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-interop-")
        self.addCleanup(folder.cleanup)
        real, own, preloads = (pathlib.Path(folder.name) / name / "torchrun"
                               for name in ("real", "own", "preloads"))
        own.parent.mkdir()
        own.symlink_to(self.ddprun)
        for script, command in (real, " ".join(TORCHRUN)), (preloads, f"{own} --preload=auto"):
            script.parent.mkdir()
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            script.chmod(0o700)
        code, expected, messages = self.torchx(real)
        self.assertEqual((code, len(expected)), (0, 1), messages)
        code, lines, messages = self.torchx(own)
        self.assertEqual((code, lines), (0, expected), messages)
        code, lines, messages = self.torchx(preloads, LOGLEVEL="INFO")
        self.assertEqual((code, lines), (0, expected), messages)
        self.assertIn("workers are forks of process", messages)
        code, *_ = self.torchx(real, FAILS="1")
        own_code, _, messages = self.torchx(own, FAILS="1")
        self.assertEqual(own_code, code, messages)
        self.assertRegex(messages, r"Root cause.*\n.*  rank      : 1 ")

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

    def test_the_named_collective_is_one_of_the_present_group(self):
        call = r", all_reduce\(7 x float32\) of 28 bytes"
        for kind, workers, report in (
                ("again", 2, f'rank 1 has not entered collective 0 of group "default_pg"{call}; '
                             "rank 0 waits in it"),
                ("first_of_a_group", 2, 'rank 1 has not entered collective 0 of group "1:mesh"'
                                        f"{call}; rank 0 waits in it"),
                ("many_groups", 3, 'rank 2 has not entered collective 1 of group "18:late"'
                                   f"{call}; ranks 0, 1 wait in it")):
            run = self.run_ddprun(f"--nproc_per_node={workers}", "--preload=torch",
                                  "--hang_timeout=3", "--on_hang=stop", FOLDER / "hanging_job.py",
                                  kind)
            with self.subTest(kind=kind):
                self.assertEqual(run.code, 1, run.stderr)
                self.assertRegex(run.stderr, f"attempt 0: {report}")
                self.assertEqual(run.stderr.count(" of group "), 1, run.stderr)


def skip_without_packages():
    if not PRESENT:
        print(f"skipped: {INTERPRETER} lacks all of {', '.join(PACKAGES)}")
        sys.exit(SKIPPED)


if __name__ == "__main__":
    skip_without_packages()
    main()
