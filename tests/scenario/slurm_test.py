"""ddprun under a real Slurm, with several nodes on this machine.

Usage: slurm_test.py DDPRUN SOURCE_FOLDER. Exits with 77 (skipped) without slurmd or root. All cases
run concurrently, since Slurm checks time limits only twice a minute.
"""
import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from slurm_cluster import Command, SlurmCluster, enter_namespaces, missing, run, wait_until

# Before the arguments are parsed: the program is started again with them.
REASON = missing()
if REASON:
    print(f"skipped: {REASON}")
    sys.exit(77)
enter_namespaces()

DDPRUN = sys.argv.pop(1)
CONFIGS = pathlib.Path(sys.argv.pop(1)).resolve() / "configs"
NODES = 12
TERMINATED = 143  # 128 and SIGTERM

ONE_EACH = ("-N2", "--ntasks-per-node=1")
PLACE = "echo rank $RANK of $WORLD_SIZE, run $TORCHELASTIC_RUN_ID"

# A program that saves for 3 s when it is asked to stop.
SAVER = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("rank", os.environ["RANK"], "works", flush=True)
signal.sigwait({signal.SIGTERM})
time.sleep(3)
with open("saved." + os.environ["RANK"], "w") as file:
    file.write("all of it")
"""


def shell(script):
    """A worker; in its arguments $$ stands for $."""
    return ["--no_python", "/bin/sh", "-c", script.replace("$", "$$")]


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=CLUSTER.folder))
        (self.folder / "saver.py").write_text(SAVER)
        (self.folder / "ddprun").symlink_to(DDPRUN)

    def start(self, *arguments, **environment):
        command = Command([*arguments], self.folder, environment)
        self.addCleanup(command.process.kill)
        return command

    def srun(self, *arguments):
        return self.start("srun", *ONE_EACH, *arguments)

    def sbatch(self, *arguments):
        """Submits the example's script; returns the number of the job."""
        text = run(["sbatch", "--parsable", f"--output={self.folder}/job.%j", *arguments],
                   cwd=self.folder,
                   env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        return text.strip()

    def output(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("job.*")))

    def wait_for_end(self, job):
        """Returns scontrol's data of a job that has ended."""
        def ended():
            said = CLUSTER.job(job)
            return said["JobState"] in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED") and said
        return wait_until(ended, lambda: f"{CLUSTER.job(job)}\n{self.output()}")

    def check_saved(self):
        for rank in range(2):
            self.assertEqual((self.folder / f"saved.{rank}").read_text(), "all of it")


class Steps(SlurmTest):
    def test_srun_starts_one_run_of_two_nodes(self):
        step = self.srun(DDPRUN, "--security=open", *shell(PLACE))
        self.assertEqual(step.wait(), 0, step.text())
        name = re.search(r"run (slurm-\d+\.0) \(SLURM_JOB_ID, SLURM_STEP_ID\)", step.text())[1]
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2, run {name}", step.text())

    def test_missing_secret_of_a_step_is_reported(self):
        step = self.srun(DDPRUN, *shell(PLACE))
        self.assertEqual(step.wait(), 2, step.text())
        self.assertIn("ddprun: 2 nodes (from Slurm) need a shared secret: --secret_file=FILE",
                      step.text())

    def test_failed_step_has_one_report_by_its_first_node(self):
        step = self.srun("--kill-on-bad-exit=1", DDPRUN, "--security=open",
                         *shell("[ $RANK = 1 ] && exit 7; sleep 1000"))
        self.assertEqual(step.wait(), 1, step.text())
        self.assertEqual(step.text().count("FAILED after 1 attempt"), 1, step.text())
        first, second = (re.search(r"from Slurm: node \d of 2, (\S+)", line)[1] for line in sorted(
            re.findall(r"from Slurm: node .*", step.text())))
        self.assertIn(f"rank      : 1 on node {second}", step.text())
        self.assertRegex(step.text(), f"node {second}: the run ended after 1 attempt with exit "
                                      f"code 1: .*; node {first} prints the report\n")

    def test_other_nodes_report_the_outcome_if_the_first_is_lost(self):
        step = self.srun(DDPRUN, "--security=open", "--rdzv_conf=rejoin_timeout=2",
                         *shell("[ $RANK = 0 ] && kill -9 $PPID; sleep 1000"))
        self.assertNotEqual(step.wait(), 0, step.text())
        self.assertRegex(step.text(), r"node \S+: the run ended after 1 attempt with exit code 1: "
                                      r"the rendezvous was lost .*gave up after 2 s")
        self.assertNotIn("prints the report", step.text())

    def test_steps_of_one_job_are_concurrent_runs(self):
        step = f"srun -N2 -n2 --exact {DDPRUN} --security=open ./meet.sh"
        (self.folder / "meet.sh").write_text(
            f"#!/bin/sh\n{PLACE}\ntouch here.$SLURM_STEP_ID\n"
            "while [ ! -e here.$((1 - SLURM_STEP_ID)) ]; do sleep 0.05; done\n")
        (self.folder / "meet.sh").chmod(0o755)
        job = self.start("salloc", "-N2", "--ntasks-per-node=2", "/bin/sh", "-c",
                         f"{step} & first=$!; {step} && wait $first")
        self.assertEqual(job.wait(), 0, job.text())
        name = re.search(r"run (slurm-\d+)\.0", job.text())[1]
        for rank in range(2):
            for number in range(2):
                self.assertIn(f"rank {rank} of 2, run {name}.{number}\n", job.text())


class Batch(SlurmTest):
    def test_the_example_trains_on_two_nodes(self):
        job = self.sbatch(str(CONFIGS / "slurm.sbatch"), *shell(PLACE))
        self.assertEqual(self.wait_for_end(job)["ExitCode"], "0:0", self.output())
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2, run slurm-{job}.0\n", self.output())
        self.assertEqual(list(self.folder.glob("*.key")), [])

    def test_each_task_of_an_array_is_a_run(self):
        job = self.sbatch("--array=0-1", str(CONFIGS / "slurm.sbatch"), *shell(PLACE))
        numbers = []
        for task in range(2):
            said = self.wait_for_end(f"{job}_{task}")
            self.assertEqual(said["ExitCode"], "0:0", self.output())
            numbers.append(said["JobId"])
        for number in numbers:
            for rank in range(2):
                self.assertIn(f"rank {rank} of 2, run slurm-{number}.0\n", self.output())

    def test_a_job_runs_again_after_the_failure_of_its_first_node(self):
        job = self.sbatch("--open-mode=append", str(CONFIGS / "slurm.sbatch"),
                          *shell(f"{PLACE}; [ -e failed ] || sleep 1000"))
        wait_until(lambda: self.output().count("of 2, run") == 2, self.output)
        self.assertEqual(len(list(self.folder.glob("*.key"))), 1)
        (self.folder / "failed").touch()
        node = CLUSTER.job(job)["BatchHost"]
        CLUSTER.kill_node(node)
        run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"])
        CLUSTER.start_node(node)
        said = self.wait_for_end(job)
        self.assertEqual((said["ExitCode"], said["Restarts"]), ("0:0", "1"), self.output())
        self.assertEqual(self.output().count("of 2, run"), 4, self.output())
        self.assertEqual(list(self.folder.glob("*.key")), [])


class Ends(SlurmTest):
    """Workers that take 3 s to save complete."""

    def saver(self, *options):
        step = self.srun(*options, DDPRUN, "--security=open", "saver.py")
        for rank in range(2):
            step.wait_for(f"rank {rank} works")
        return step, re.search(r"run slurm-(\d+)\.0", step.text())[1]

    def check(self, step, words):
        self.assertIn(words, step.text())
        self.check_saved()

    def test_workers_can_save_at_the_time_limit(self):
        step, job = self.saver()
        run(["scontrol", "update", f"JobId={job}", "EndTime=now+1"])
        code = step.wait()
        self.check(step, "DUE TO TIME LIMIT")
        self.assertEqual(code, TERMINATED)
        self.assertEqual(self.wait_for_end(job)["JobState"], "TIMEOUT")

    def test_workers_can_save_at_the_time_limit_of_a_batch_script(self):
        job = self.sbatch(str(CONFIGS / "slurm.sbatch"), "saver.py")
        wait_until(lambda: self.output().count("works") == 2, self.output)
        run(["scontrol", "update", f"JobId={job}", "EndTime=now+1"])
        self.assertEqual(self.wait_for_end(job)["JobState"], "TIMEOUT")
        self.check_saved()

    def test_workers_can_save_after_scancel(self):
        step, job = self.saver()
        run(["scancel", job])
        code = step.wait()
        self.check(step, "CANCELLED")
        self.assertEqual(code, TERMINATED)

    def test_workers_can_save_after_the_early_signal(self):
        step, job = self.saver("--time=1", "--signal=TERM@60")
        code = step.wait()
        self.check(step, "received SIGTERM")
        self.assertNotIn("TIME LIMIT", step.text())
        self.assertEqual(code, TERMINATED)


class LoginNode(SlurmTest):
    def test_ddprun_in_salloc_reports_that_it_uses_no_node(self):
        for count in (1, 2):
            job = self.start("salloc", f"-N{count}", DDPRUN, *shell(PLACE))
            self.assertEqual(job.wait(), 0, job.text())
            self.assertIn("rank 0 of 1", job.text())
            number = re.search(r"Granted job allocation (\d+)", job.text())[1]
            self.assertIn(f"Slurm gave {count} node{'s' if count > 1 else ''} to job {number}, but "
                          "this run is on none of them: it was started on login without srun; "
                          "'srun --ntasks-per-node=1 ddprun ...' uses all\n", job.text())

    def test_srun_in_salloc_uses_its_nodes(self):
        job = self.start("salloc", "-N2", "srun", "--ntasks-per-node=1", DDPRUN, "--security=open",
                         *shell(PLACE))
        self.assertEqual(job.wait(), 0, job.text())
        self.assertIn("rank 1 of 2", job.text())


class SideBySide(unittest.TestSuite):
    def run(self, result, debug=False):
        with concurrent.futures.ThreadPoolExecutor(self.countTestCases()) as pool:
            list(pool.map(lambda test: test.run(result), all_of(self)))
        return result


def all_of(suite):
    for test in suite:
        yield from all_of(test) if isinstance(test, unittest.TestSuite) else [test]


def load_tests(loader, tests, pattern):
    return SideBySide(all_of(tests))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cluster_folder:
        CLUSTER = SlurmCluster(cluster_folder, NODES)
        program = unittest.main(exit=False)
        wait_until(lambda: not CLUSTER.left_over(), lambda: "\n".join(CLUSTER.left_over()))
        CLUSTER.close()
    sys.exit(not program.result.wasSuccessful())
