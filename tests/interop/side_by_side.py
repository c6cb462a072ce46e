"""A worker's environment and arguments under ddprun and under the interpreter's torchrun."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import harness

# Debian's torchrun (1.13 on Python 3.11) starts only with both of these.
NEEDED = ["-r", "1", "-t", "1"]
OPTIONS = ["--nnodes=1", "--nproc_per_node=2", "--max_restarts=3", "--role=trainer",
           "--rdzv_id=job", "--rdzv_backend=static", "--master_addr=127.0.0.1"]
ARGUMENTS = ["--rank=${local_rank}", "$local_rank", "$$x", "${other}", "--nproc_per_node", "--",
             "$"]

SCRIPT = """
import json, os, pathlib, sys
place = pathlib.Path("seen" + os.environ["RANK"])
place.write_text(json.dumps({"argv": sys.argv[1:], "environ": dict(os.environ)}))
"""

# Differs in each run.
CHANGING = {"MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "TMPDIR", "PWD", "OLDPWD", "_", "SHLVL"}
# Set by versions newer than 1.13, and the name that they no longer use.
NEWER = {"TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}
OLDER = {"NCCL_ASYNC_ERROR_HANDLING"}
# Not set by torchrun: Python then prints the frames of a worker that crashes.
OWN = {"PYTHONFAULTHANDLER"}


def seen_in(folder, rank):
    seen = json.loads((folder / f"seen{rank}").read_text())
    names = [name for name in seen["environ"] if name.startswith("DDPRUN_")]
    for name in CHANGING.union(names):
        seen["environ"].pop(name, None)
    return seen


class SideBySide(harness.RunTest):
    def test_workers_have_the_same_environment_and_arguments(self):
        if harness.lacks_libuv():
            self.skipTest("this PyTorch has no libuv, without which its torchrun fails")
        with tempfile.TemporaryDirectory(prefix="ddprun-interop-") as name:
            theirs = pathlib.Path(name)
            script = theirs / "look.py"
            script.write_text(SCRIPT)
            environment = {**os.environ, "PYTHON_EXEC": harness.INTERPRETER}
            environment.pop("OMP_NUM_THREADS", None)
            environment.pop("PYTHONFAULTHANDLER", None)
            subprocess.run([harness.INTERPRETER, "-m", "torch.distributed.run", *NEEDED, *OPTIONS,
                            "--master_port=0", script, *ARGUMENTS], cwd=theirs, check=True,
                           capture_output=True, env=environment, timeout=harness.TIME_LIMIT)
            run = self.run_ddprun("--agent_store=on", *OPTIONS, script, *ARGUMENTS)
            for rank in (0, 1):
                expected, seen = seen_in(theirs, rank), seen_in(run.folder, rank)
                self.assertEqual(seen["argv"], expected["argv"])
                added = seen["environ"].keys() - expected["environ"].keys()
                self.assertEqual(added - NEWER, OWN)
                self.assertLessEqual(expected["environ"].keys() - seen["environ"].keys(), OLDER)
                for variable in seen["environ"].keys() & expected["environ"].keys():
                    self.assertEqual(seen["environ"][variable], expected["environ"][variable],
                                     variable)


if __name__ == "__main__":
    harness.main()
