"""Jobs of TorchX, whose dist.ddp finds in PATH a torchrun that is a link to ddprun.

Usage: torchx_jobs.py DDPRUN PYTHON (an interpreter that has TorchX, but needs no PyTorch)
"""
import os
import pathlib
import sys
import tempfile

import harness
from free_port import FreePort

PYTHON = sys.argv.pop(2)
SCRIPT = """
import os
import sys
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
print("rank", dist.get_rank(), "of", dist.get_world_size(), "as", repr(os.environ["ROLE_NAME"]),
      sys.argv[1:], flush=True)
dist.barrier()
dist.destroy_process_group()
"""


class TorchxJobs(harness.RunTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="ddprun-interop-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "torchrun").symlink_to(self.ddprun)
        (self.folder / "train.py").write_text(SCRIPT)

    def output_of_job(self, *options):
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "HOME": str(self.folder),
                       "GLOO_SOCKET_IFNAME": "lo"}
        run = harness.Run(PYTHON, "-m", "torchx.cli.main", "run", "-s", "local_cwd", "-cfg",
                          f"log_dir={self.folder}/logs", "dist.ddp", *options, "--script",
                          self.folder / "train.py", "--", "--lr", "1", environment=environment)
        self.addCleanup(run.close)
        self.finish(run)
        self.assertEqual(run.code, 0, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_job_of_one_node_runs(self):
        output = self.output_of_job("-j", "1x2")
        for rank in 0, 1:
            self.assertIn(f"[{rank}]:rank {rank} of 2 as '' ['--lr', '1']", output)

    def test_job_of_two_nodes_runs(self):
        if harness.lacks_libuv():
            self.skipTest("this PyTorch has no libuv, which process groups of several nodes need")
        port = FreePort()
        self.addCleanup(port.close)
        output = self.output_of_job("-j", "2x1", "--rdzv_port", port.number, "--rdzv_conf",
                                    "join_timeout=100,close_timeout=100,timeout=100")
        for rank in 0, 1:
            self.assertIn(f"rank {rank} of 2 as '' ['--lr', '1']", output)


if __name__ == "__main__":
    harness.main()
