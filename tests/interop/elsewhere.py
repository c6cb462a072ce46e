"""ddprun reports ranks that wait at an address of their own without a store."""
import pathlib
import tempfile

import harness

SPAWNS = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank):
    os.environ["MASTER_PORT"] = "1"
    dist.init_process_group("gloo", rank=rank, world_size=2)

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
SETS_PORT = """
import os
import torch.distributed as dist
os.environ["MASTER_PORT"] = "1"
dist.init_process_group("gloo")
"""
ADVICE = "itself needs --agent_store=off"


class Elsewhere(harness.RunTest):
    def stderr_with_advice(self, program, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        script = pathlib.Path(folder.name) / "program.py"
        script.write_text(program)
        run = self.start("--agent_store=on", *options, script)
        run.wait_for_message(ADVICE)
        run.process.terminate()
        return self.finish(run).stderr

    def test_waiting_processes_spawned_by_one_worker_are_reported(self):
        messages = self.stderr_with_advice(SPAWNS)
        self.assertRegex(messages, r"and process \d+ and 1 more wait for a store elsewhere")

    def test_waiting_workers_that_set_the_port_are_reported(self):
        messages = self.stderr_with_advice(SETS_PORT, "--nproc_per_node=2")
        self.assertRegex(messages, r"and process \d+ and 1 more wait for a store elsewhere")


if __name__ == "__main__":
    harness.main()
