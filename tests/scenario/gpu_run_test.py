"""tests/gpu/run where there is no GPU, with stand-ins for all programs: what of its table fails.

    gpu_run_test.py SOURCE_FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(sys.argv[1])

# The options of ddprun are its own; what follows is the worker.
DDPRUN = """
for argument; do case $argument in --preflight) echo 'preflight: 1 x CUDA device' ;; esac; done
while [ "$1" != --no_python ]; do shift; done
shift
exec "$@"
"""
SANITIZER = r"""
echo "$*" >>"$CALLS"
while [ "$1" != --tool ]; do shift; done
tool=$2
while [ "$1" != "${1#-}" ]; do shift 2; done
"$@"
status=$?
case "$*" in *"$FAULTY"*) findings=${FINDINGS-0} ;; *) findings=0 ;; esac
if [ -n "${IS_MUTE-}" ]; then exit 0; fi
case $tool in
  memcheck) echo "========= ERROR SUMMARY: $findings errors" ;;
  racecheck) echo "========= RACECHECK SUMMARY: $findings hazards displayed (0 errors," \
    "$findings warnings)" ;;
esac
exit $status
"""


# Ten steps; a training in the folder "halves" is stopped at the eighth. With a graph losses are
# $LOSS.
GPT2 = r"""
loss=3
for argument; do
  case $argument in
    --metrics=*) metrics=${argument#*=} ;;
    --checkpoint_dir=*) folder=${argument#*=} ;;
    --cuda_graph) loss=${LOSS-3} ;;
  esac
done
first=1
if [ -e "$folder" ]; then first=9; fi
mkdir -p "$folder"
trap 'exit 143' TERM
for ((step = first; step <= 10; ++step)); do
  echo '{"event":"step","step":'"$step"',"loss":'"$loss"',"seconds":1}' >>"$metrics"
  echo "step $step/10: loss $loss, 1000 tokens/s"
  if [[ $folder = */halves ]] && [ "$step" = 8 ]; then while :; do sleep 0.02; done; fi
done
"""


class GpuRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "bin"
        self.path = self.folder / "path"
        self.stand_in(self.path / "nvidia-smi", "echo 'A GPU, 1.0'")
        self.stand_in(self.bin / "ddprun", DDPRUN)
        self.stand_in(self.bin / "device_collectives", 'echo "$2 random calls as the serial ones"')
        self.stand_in(self.bin / "kernel_bench", 'echo "a kernel: right"')
        self.stand_in(self.bin / "compute_check", 'echo "all operations"')
        for name in ("ddprun-preflight", "libddprun_nccl.so"):
            self.stand_in(self.bin / name, "")

    def stand_in(self, path, script):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)
        return path

    def environment(self, **more):
        return {**os.environ, "PATH": f"{self.path}:/usr/bin:/bin",
                "CUDA_HOME": str(self.folder / "home"), "CALLS": str(self.folder / "calls"),
                "FAULTY": "nothing", **more}

    def where(self, **more):
        """Where compute-sanitizer is found, or None."""
        found = subprocess.run([SOURCES / "tests/gpu/sanitized", "--where"], capture_output=True,
                               text=True, env=self.environment(**more))
        self.assertIn(found.returncode, (0, 77), found.stderr)
        return found.stdout.strip() if found.returncode == 0 else None

    def rows(self, **more):
        """The exit code, and result and figures by title of the rows of one rank."""
        ended = subprocess.run([SOURCES / "tests/gpu/run", self.bin], capture_output=True,
                               text=True, env=self.environment(**more))
        self.output = ended.stdout + ended.stderr
        cells = [line[2:-2].split(" | ") for line in ended.stdout.splitlines()
                 if line.startswith("| 1 |")]
        return ended.returncode, {title: (result, figures) for _, title, result, figures in cells}

    def test_all_is_run_once_more_under_memcheck_and_racecheck(self):
        self.stand_in(self.path / "compute-sanitizer", SANITIZER)
        status, rows = self.rows()
        self.assertEqual(status, 0, self.output)
        for title in ("copy kernels", "what trainers compute",
                      "all collectives and types"):
            self.assertEqual(rows["memcheck, " + title], ("ok", "ERROR SUMMARY: 0 errors"))
            self.assertEqual(
                rows["racecheck, " + title],
                ("ok", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"))
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual(len(calls), 8)
        for tool in ("memcheck", "racecheck"):
            for arguments in ("kernel_bench check", "compute_check",
                              "device_collectives check 50"):
                self.assertIn(f"--tool {tool} --error-exitcode 86 {self.bin}/{arguments}", calls)

    def test_a_finding_fails_though_all_programs_succeed(self):
        self.stand_in(self.path / "compute-sanitizer", SANITIZER)
        status, rows = self.rows(FAULTY="device_collectives", FINDINGS="10")
        self.assertEqual(status, 1, self.output)
        failed = {title for title, (result, _) in rows.items() if result == "FAILED"}
        self.assertEqual(failed, {"memcheck, all collectives and types",
                                  "racecheck, all collectives and types"})
        self.assertIn("    ========= ERROR SUMMARY: 10 errors", self.output)

    def test_a_tool_that_has_looked_at_nothing_fails(self):
        self.stand_in(self.path / "compute-sanitizer", SANITIZER)
        status, rows = self.rows(IS_MUTE="1")
        self.assertEqual(status, 1, self.output)
        self.assertEqual(rows["memcheck, copy kernels"][0], "FAILED")

    def test_a_program_that_fails_under_a_tool_fails(self):
        self.stand_in(self.path / "compute-sanitizer", SANITIZER)
        self.stand_in(self.bin / "kernel_bench", '[ "${1-}" != check ]')
        status, rows = self.rows()
        self.assertEqual(status, 1, self.output)
        self.assertEqual(rows["memcheck, copy kernels"][0], "FAILED")
        self.assertEqual(rows["memcheck, what trainers compute"][0], "ok")

    def test_gpt2_has_the_same_losses_with_its_steps_as_graphs(self):
        self.stand_in(self.bin / "gpt2", GPT2)
        self.rows()
        rows = [line for line in self.output.splitlines() if "GPT-2 124M" in line]
        self.assertEqual([row.split(" | ")[2:] for row in rows], [
            ["ok", "step 10/10: loss 3, 1000 tokens/s |"],
            ["ok", "as a CUDA graph, step 10/10: loss 3, 1000 tokens/s |"],
            ["ok", "10 losses of a training with steps as CUDA graphs are those of the other |"],
            ["ok", "10 losses of a training that went on from a stop are those of the other |"],
            ["ok", "10 losses of a training that went on from a stop with steps as CUDA graphs are "
                   "those of the other |"]])

    def test_other_losses_with_graphs_fail(self):
        self.stand_in(self.bin / "gpt2", GPT2)
        status, _ = self.rows(LOSS="4")
        self.assertEqual(status, 1, self.output)
        self.assertIn("| FAILED | the losses of a training with steps as CUDA graphs are others",
                      self.output)

    def test_without_the_tool_a_row_says_how_to_get_it(self):
        if self.where():
            self.skipTest("this machine has compute-sanitizer")
        status, rows = self.rows()
        self.assertEqual(status, 0, self.output)
        result, figures = rows["compute-sanitizer"]
        self.assertEqual(result, "not here")
        self.assertTrue(figures.startswith("pip install nvidia-cuda-sanitizer-api"), figures)

    def test_the_tool_is_found_in_path_then_in_cudas_folder_then_in_packages(self):
        self.stand_in(self.folder / "venv/bin/python3", "")
        packages = self.folder / "venv/lib/python3.11/site-packages/nvidia"
        places = [self.stand_in(packages / "cuda_sanitizer_api/bin/compute-sanitizer", SANITIZER),
                  self.stand_in(self.folder / "home/bin/compute-sanitizer", SANITIZER),
                  self.stand_in(self.path / "compute-sanitizer", SANITIZER)]
        path = f"{self.path}:{self.folder}/venv/bin:/usr/bin:/bin"
        while places:
            self.assertEqual(self.where(PATH=path), str(places[-1]))
            places.pop().unlink()

    def test_a_package_is_told_where_its_libraries_are(self):
        self.stand_in(self.folder / "venv/bin/python3", "")
        package = self.folder / "venv/lib/python3.11/site-packages/nvidia/cuda_sanitizer_api"
        self.stand_in(package / "bin/compute-sanitizer", SANITIZER)
        self.stand_in(package / "lib/libsanitizer-collection.so", "")
        status, _ = self.rows(PATH=f"{self.path}:{self.folder}/venv/bin:/usr/bin:/bin")
        self.assertEqual(status, 0, self.output)
        self.assertIn(f" --injection-path {package}/lib {self.bin}/compute_check\n",
                      (self.folder / "calls").read_text())

    def test_a_file_that_cannot_be_executed_is_named(self):
        tool = self.stand_in(self.folder / "home/bin/compute-sanitizer", SANITIZER)
        tool.chmod(0o644)
        if self.where():
            self.skipTest("PATH has another one")
        status, rows = self.rows()
        self.assertEqual(status, 0, self.output)
        self.assertEqual(rows["compute-sanitizer"][0], "not here")
        self.assertIn(f"chmod +x {tool}", rows["compute-sanitizer"][1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
