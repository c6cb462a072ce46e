"""The examples for Slurm and Kubernetes, with the variables and host names that these provide.

Usage: scheduler_test.py DDPRUN SOURCE_FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from free_port import FreePort

try:
    import yaml
except ImportError:
    yaml = None

DDPRUN = sys.argv.pop(1)
CONFIGS = pathlib.Path(sys.argv.pop(1)) / "configs"
TIME_LIMIT = 120

# Prints torchrun's variables. In arguments of workers $$ stands for $.
WORKER = ["--no_python", "/bin/sh", "-c",
          "echo rank $${RANK} of $${WORLD_SIZE}, node $${GROUP_RANK}, run $${TORCHELASTIC_RUN_ID}"]

# Starts the command once for each of two nodes of an allocation, with the variables of Slurm 22.05.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do echo "srun got $1"; shift; done
export SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=$SLURM_JOB_NODELIST
export SLURM_STEP_TASKS_PER_NODE="${TASKS:-1(x2)}" SLURM_NNODES=2
SLURM_NODEID=0 "$@" & first=$!
SLURM_NODEID=1 "$@" & second=$!
wait $first && wait $second
"""


def run(command, environment, folder):
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("SLURM", "PET_", "DDPRUN"))}
    done = subprocess.run(command, env={**inherited, **environment}, cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIME_LIMIT)
    return done.returncode, done.stdout


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        srun = pathlib.Path(self.folder.name) / "srun"
        srun.write_text(SRUN)
        srun.chmod(0o755)
        (srun.parent / "ddprun").symlink_to(DDPRUN)
        held = FreePort(range(15000 + os.getpid() % 9000, 25000))
        self.addCleanup(held.close)
        self.port = held.number

    def sbatch(self, *arguments, **more):
        variables = {"PATH": f"{self.folder.name}:{os.environ['PATH']}",
                     "SLURM_JOB_ID": str(self.port - 15000), "SLURM_JOB_NUM_NODES": "2",
                     "SLURM_JOB_NODELIST": "127.0.0.[2-3]", "SLURM_NODEID": "0", **more}
        command = ["/bin/bash", str(CONFIGS / "slurm.sbatch"), *arguments]
        return run(command, variables, self.folder.name)

    def test_the_script_trains_on_all_nodes_of_the_allocation(self):
        code, output = self.sbatch(*WORKER)
        self.assertEqual(code, 0, output)
        name = f"slurm-{self.port - 15000}.0"
        self.assertIn("srun got --ntasks-per-node=1", output)
        self.assertIn(f"rank 0 of 2, node 0, run {name}", output)
        self.assertIn(f"rank 1 of 2, node 1, run {name}", output)
        self.assertIn(f"from Slurm: node 1 of 2, 127.0.0.3 (SLURM_NODEID, "
                      f"SLURM_STEP_NODELIST=127.0.0.[2-3]), meeting at 127.0.0.2:{self.port} "
                      f"as run {name} (SLURM_JOB_ID, SLURM_STEP_ID)", output)

    def test_a_job_that_is_requeued_replaces_the_secret_of_its_first_attempt(self):
        old = pathlib.Path(self.folder.name) / f"ddprun-{self.port - 15000}.key"
        old.write_text("left by a node that has failed\n")
        code, output = self.sbatch(*WORKER)
        self.assertEqual(code, 0, output)
        self.assertFalse(old.exists())

    def test_the_number_of_gpus_is_the_number_of_workers(self):
        code, output = self.sbatch(*WORKER, SLURM_GPUS_ON_NODE="2")
        self.assertEqual(code, 0, output)
        self.assertIn("rank 3 of 4, node 1", output)

    def test_several_tasks_on_a_node_are_refused_at_once(self):
        code, output = self.sbatch(*WORKER, TASKS="2(x2)")
        self.assertEqual(code, 2, output)
        self.assertIn("SLURM_STEP_TASKS_PER_NODE=2(x2): several ddprun processes", output)

    def test_script_has_no_syntax_errors(self):
        script = str(CONFIGS / "slurm.sbatch")
        self.assertEqual(run(["/bin/bash", "-n", script], {}, "/"), (0, ""))


@unittest.skipUnless(yaml, "there is no python3-yaml")
class Kubernetes(unittest.TestCase):
    def setUp(self):
        text = (CONFIGS / "kubernetes_job.yaml").read_text()
        self.service, self.job = yaml.safe_load_all(text)
        self.pod = self.job["spec"]["template"]["spec"]

    def test_the_pods_of_the_job_can_find_each_other(self):
        self.assertEqual(self.service["spec"]["clusterIP"], "None")
        self.assertTrue(self.service["spec"]["publishNotReadyAddresses"])
        selector = {"job-name": self.job["metadata"]["name"]}
        self.assertEqual(self.service["spec"]["selector"], selector)
        self.assertEqual(self.pod["subdomain"], self.service["metadata"]["name"])
        job = self.job["spec"]
        self.assertEqual(job["completionMode"], "Indexed")
        self.assertEqual(job["completions"], job["parallelism"])
        self.assertIn(f"--nnodes={job['completions']}", self.pod["containers"][0]["command"])

    def test_a_cpu_limit_bounds_the_workers_that_auto_counts(self):
        container = self.pod["containers"][0]
        self.assertIn("--nproc_per_node=auto", container["command"])
        resources = container["resources"]
        self.assertEqual(resources["limits"]["cpu"], resources["requests"]["cpu"])

    def secret_folder(self):
        """The pods' folder of the secret, which other users of the pod cannot read."""
        secret = next(volume for volume in self.pod["volumes"] if "secret" in volume)
        self.assertEqual(secret["secret"]["defaultMode"], 0o400)
        mounts = self.pod["containers"][0]["volumeMounts"]
        return next(m["mountPath"] for m in mounts if m["name"] == secret["name"])

    def test_command_of_the_job_trains_in_all_pods(self):
        """Each pod with a host name and /etc/hosts of its own, as the kubelet makes them."""
        if run(["unshare", "-um", "true"], {}, "/")[0] != 0:
            self.skipTest("no namespaces can be made here")
        command = list(self.pod["containers"][0]["command"])
        self.assertEqual((command[0], command[-1]), ("ddprun", "train.py"))
        self.assertIn(f"--secret_file={self.secret_folder()}/run.key", command)
        command = [DDPRUN, *command[1:-1], "--nproc_per_node=1", "--secret_file=run.key", *WORKER]
        job, domain = self.job["metadata"]["name"], f"{self.pod['subdomain']}.ml.svc.cluster.local"
        with tempfile.TemporaryDirectory() as folder:
            run([DDPRUN, "keygen", "run.key"], {}, folder)
            hosts = pathlib.Path(folder) / "hosts"
            hosts.write_text("".join(f"127.0.0.{i + 2} {job}-{i}.{domain} {job}-{i}\n"
                                     for i in range(2)))
            pods = "".join(
                f"JOB_COMPLETION_INDEX={i} unshare -um /bin/sh -c "
                f"'mount --bind hosts /etc/hosts && hostname {job}-{i} && exec \"$@\"' "
                f"sh \"$@\" & pod{i}=$!\n" for i in range(2))
            script = pods + "wait $pod0 && wait $pod1"
            held = FreePort(range(25000 + os.getpid() % 5000, 32000))
            self.addCleanup(held.close)
            port = str(held.number)
            code, output = run(["/bin/bash", "-c", script, "bash", *command],
                               {"PET_MASTER_PORT": port}, folder)
        self.assertEqual(code, 0, output)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2, node {rank}, run {job}", output)
        self.assertIn("node_rank 1 (JOB_COMPLETION_INDEX=1), "
                      f"master_addr {job}-0.{domain} (the host name {job}-1.{domain})", output)


if __name__ == "__main__":
    unittest.main()
