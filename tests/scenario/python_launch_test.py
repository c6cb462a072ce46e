"""Functions and commands started from Python run under ddprun, and fail and stop with it.

Usage: python_launch_test.py DDPRUN
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
TIME_LIMIT = 60  # seconds
NO_CLOUDPICKLE = "import sys; sys.modules['cloudpickle'] = None\n"
MODULE = """
import os, signal, sys, time

def double(number, other=0):
    return int(os.environ["RANK"]), 2 * number + other

def fail(rank):
    if os.environ["RANK"] == str(rank):
        raise ValueError("text of the error")

def restart(folder):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(3)
    return os.environ["TORCHELASTIC_RESTART_COUNT"]

def make_generator():
    return (i for i in ())

def wait():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: (print("cleaned up", flush=True), sys.exit(0)))
    print("up", flush=True)
    time.sleep(1000)

def ignore():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print("up", flush=True)
    time.sleep(1000)
"""


class PythonLaunchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "module.py").write_text(MODULE)
        (self.folder / "tmp").mkdir()
        adopt_orphans()
        self.addCleanup(self.check_nothing_is_left)

    def check_nothing_is_left(self):
        self.assertEqual(end_children(), [])
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def start(self, program, path=None):
        """Starts a program in another folder than that of its modules."""
        script = self.folder / "main.py"
        script.write_text(program)
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1",
                           TMPDIR=str(self.folder / "tmp"),
                           PATH=path or f"{DDPRUN.parent}:{os.environ['PATH']}")
        return subprocess.Popen([sys.executable, "-W", "error", script], env=environment,
                                cwd=self.folder / "tmp", text=True, start_new_session=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait_for_lines(self, process, text, count):
        lines = []
        while sum(text in line for line in lines) < count:
            lines.append(process.stdout.readline())
            self.assertTrue(lines[-1], lines)

    def output_of(self, program, code=0, path=None):
        process = self.start(program, path)
        output, _ = process.communicate(timeout=TIME_LIMIT)
        self.assertEqual(process.returncode, code, output)
        return output

    def test_results_are_ordered_by_rank(self):
        output = self.output_of("import ddprun, module\n"
                                "print(ddprun.launch(module.double, 4, 1, nproc_per_node=3))\n")
        self.assertIn("[(0, 9), (1, 9), (2, 9)]\n", output)

    def test_options_are_those_of_ddprun(self):
        output = self.output_of("import ddprun, module\n"
                                "print(ddprun.launch(module.restart, '', nproc_per_node=2,"
                                " options=['--max_restarts=1', '--prefix=none']))\n")
        self.assertIn("['1', '1']\n", output)

    def test_the_number_of_results_is_that_of_the_workers(self):
        output = self.output_of("import ddprun, module\n"
                                "print(ddprun.launch(module.double, 1, nproc_per_node='2'))\n"
                                "print(ddprun.launch(module.double, 2,"
                                " options=['--nproc_per_node=2']))\n")
        self.assertIn("[(0, 2), (1, 2)]\n", output)
        self.assertIn("[(0, 4), (1, 4)]\n", output)

    def test_a_worker_that_ends_before_the_function_returns_is_a_failure(self):
        for call in "os._exit, 0", "exit, 0", "module.double, 1, options=['--dry_run']":
            output = self.output_of(f"import os, ddprun, module\nddprun.launch({call})\n", 1)
            self.assertIn("LaunchError: ddprun: exit code 0: rank 0 has ended before "
                          "the function returned\n", output)

    def test_a_text_is_not_a_list_of_options(self):
        for call in "launch(print, options='--preload=torch')", "run('train.py')", "run([1])":
            self.assertRegex(self.output_of(f"import ddprun\nddprun.{call}\n", 1),
                             r"TypeError: .*: a list of strings is needed, not ")

    def test_a_failure_is_an_exception_with_the_root_cause(self):
        output = self.output_of("import ddprun, module\n"
                                "try: ddprun.launch(module.fail, 1, nproc_per_node=2)\n"
                                "except ddprun.LaunchError as error:\n"
                                "    print(error.exit_code, error, flush=True)\n")
        self.assertRegex(output, r"\n1 ddprun: exit code 1: rank 1 .*"
                                 r"ValueError: text of the error\n")

    def test_a_result_that_cannot_be_pickled_is_a_failure(self):
        output = self.output_of(NO_CLOUDPICKLE + "import ddprun, module\n"
                                "ddprun.launch(module.make_generator)\n", 1)
        self.assertRegex(output, "LaunchError: .*cannot pickle 'generator' object")

    def test_a_function_of_the_main_program_needs_cloudpickle(self):
        for call, problem in (("function", "is in the main program"),
                              ("print, Text()", "is in the main program"),
                              ("lambda: 1", "cannot be pickled: .*lambda.*")):
            program = ("import ddprun\ndef function(): return 7\nclass Text(str): pass\n"
                       f"ddprun.launch({call})\n")
            output = self.output_of(NO_CLOUDPICKLE + program, 1)
            self.assertRegex(output, f"\nTypeError: launch: <.*>, or an argument, {problem}; "
                                     "pip install cloudpickle, or define it in a module\n")

    def test_a_function_and_a_class_of_the_main_program_are_sent_by_cloudpickle(self):
        if subprocess.run([sys.executable, "-c", "import cloudpickle"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("there is no cloudpickle")
        output = self.output_of("import ddprun\nclass Text(str): pass\n"
                                "def function(text): return Text(text + 'b')\n"
                                "result, = ddprun.launch(function, Text('a'))\n"
                                "print(type(result) is Text, result)\n")
        self.assertIn("True ab\n", output)

    def test_wrong_options_and_a_missing_ddprun_are_exceptions(self):
        output = self.output_of("import ddprun\nddprun.run(['--wrong'])\n", 1)
        self.assertIn("ddprun: unknown option --wrong", output)
        self.assertIn("LaunchError: ddprun: exit code 2\n", output)
        self.assertIn("FileNotFoundError: ddprun: not found beside the interpreter or in PATH\n",
                      self.output_of("import ddprun\nddprun.run([])\n", 1, "/nonexistent"))

    def test_an_interruption_stops_the_workers_in_order(self):
        for kill in (os.kill, os.killpg):  # of this process only, and as by a terminal
            process = self.start("import ddprun, module\n"
                                 "ddprun.launch(module.wait, nproc_per_node=2)\n")
            self.wait_for_lines(process, "up", 2)
            kill(process.pid, signal.SIGINT)
            output, _ = process.communicate(timeout=TIME_LIMIT)
            with self.subTest(kill=kill):
                self.assertEqual(process.returncode, -signal.SIGINT, output)
                self.assertEqual(output.count("cleaned up\n"), 2, output)
                self.assertIn("KeyboardInterrupt\n", output)

    def test_a_second_interruption_kills_the_workers_before_the_call_raises(self):
        process = self.start("import ddprun, module\n"
                             "try: ddprun.launch(module.ignore)\n"
                             "finally: print('raises', flush=True)\n")
        self.wait_for_lines(process, "up", 1)
        os.killpg(process.pid, signal.SIGINT)
        self.wait_for_lines(process, "already stopping the workers", 1)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=TIME_LIMIT)
        self.assertEqual(process.returncode, -signal.SIGINT, output)
        self.assertRegex(output, r"the run ended after 1 attempt(.*\n)*raises\n")

    def test_workers_end_with_the_process_that_has_called(self):
        for number in signal.SIGKILL, signal.SIGTERM:
            process = self.start("import ddprun, module\n"
                                 "ddprun.launch(module.wait, nproc_per_node=2)\n")
            self.wait_for_lines(process, "up", 2)
            process.send_signal(number)
            output, _ = process.communicate(timeout=TIME_LIMIT)  # until all have closed it
            self.assertEqual(output.count("cleaned up\n"), 2, output)
            for folder in (self.folder / "tmp").glob("ddprun_launch_*"):
                shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main()
