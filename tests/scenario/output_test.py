"""Output of workers: progress bars on a terminal, in a pipe and in files;
prefixes and filters.

Usage: output_test.py DDPRUN
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children
from terminal import Terminal

DDPRUN = sys.argv.pop(1)
PYTHON = "/usr/bin/python3"

# A progress bar that advances on request of the test, and a line in between.
BAR = """
import os, sys, time
rank = os.environ["RANK"]
def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.005)
for step in (10, 20, 100):
    sys.stderr.write(f"\\r{step:3d}%|" + "#" * step)
    sys.stderr.flush()
    await_file(f"go{step}")
    if step == 10 and rank == "0":
        print("a line of rank 0", flush=True)
sys.stderr.write("\\n")
"""

TQDM = """
import tqdm
for _ in tqdm.tqdm(range(100000), mininterval=0, miniters=500, desc="train"):
    pass
"""


def has_tqdm():
    command = [PYTHON, "-c", "import tqdm"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


class OutputTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ddprun-output-")
        self.addCleanup(scratch.cleanup)
        self.addCleanup(self.check_that_nothing_is_left)
        self.folder = pathlib.Path(scratch.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def check_that_nothing_is_left(self):
        self.assertEqual(end_children(), [])

    def command(self, script, *options):
        (self.folder / "worker.py").write_text(script)
        return [DDPRUN, "--nproc_per_node=2", *options, "worker.py"]

    def start_on_terminal(self, script, *options, **kinds):
        environment = {"PYTHON_EXEC": PYTHON, "LOGLEVEL": "WARNING", **kinds.pop("environment", {})}
        terminal = Terminal(self.command(script, *options), environment=environment, **kinds)
        self.addCleanup(terminal.close)
        return terminal

    def run_in_pipe(self, script, *options, environment=None):
        set_here = {"PYTHON_EXEC": PYTHON, "LOGLEVEL": "WARNING", **(environment or {})}
        run = subprocess.run(self.command(script, *options), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                             check=False, env={**os.environ, **set_here})
        self.assertEqual(run.returncode, 0, run.stdout)
        return run.stdout

    def test_bars_of_two_workers_have_rows_below_all_lines(self):
        terminal = self.start_on_terminal(BAR)
        rows = terminal.screen.text

        def both_show(step):
            bars = [f"[default{i}]:{step:3d}%" for i in (0, 1)]
            return lambda: sorted(row[:15] for row in rows()[-2:]) == bars

        for step in (10, 20, 100):
            terminal.read_until(both_show(step), f"two bars at {step} %")
            (self.folder / f"go{step}").touch()
        self.assertEqual(terminal.read_to_end(), 0)
        self.assertEqual(rows()[0], "[default0]:a line of rank 0")
        bars = [row for row in rows()[1:] if row]
        # Complete lines are not cut: 116 columns are two rows of 60.
        self.assertEqual(sorted(row[:15] for row in bars if row.startswith("[")),
                         ["[default0]:100%", "[default1]:100%"])
        self.assertEqual(len(bars), 4)

    @unittest.skipUnless(has_tqdm(), "there is no tqdm")
    def test_tqdm_leaves_one_line_per_worker_on_a_terminal(self):
        terminal = self.start_on_terminal(TQDM, columns=100)
        self.assertEqual(terminal.read_to_end(), 0)
        rows = [row for row in terminal.screen.text() if row]
        self.assertEqual(len(rows), 2, rows)
        for row in rows:
            self.assertRegex(row, r"^\[default[01]\]:train: 100%.*100000/100000")
        # Two hundred states each; at most ten redraws per second.
        self.assertLess(len(terminal.bytes), 20000)

    @unittest.skipUnless(has_tqdm(), "there is no tqdm")
    def test_tqdm_leaves_one_line_per_worker_in_a_pipe_and_all_in_the_file(self):
        output = self.run_in_pipe(TQDM, "--tee=3", "--log_dir=logs")
        self.assertNotIn(b"\r", output)
        lines = output.decode().splitlines()
        self.assertEqual(len([line for line in lines if "100000/100000" in line]), 2, lines)
        self.assertLessEqual(len(lines), 4)  # a slow machine may take ten seconds
        for log in self.folder.glob("logs/*/attempt_0/*/stderr.log"):
            self.assertGreater(log.read_bytes().count(b"\r"), 150)

    def test_terminal_without_cursor_movement_gets_plain_lines(self):
        script = "import sys; sys.stderr.write('\\r 10%\\r100%\\n')"
        terminal = self.start_on_terminal(script, environment={"TERM": "dumb"})
        self.assertEqual(terminal.read_to_end(), 0)
        self.assertEqual(sorted(terminal.bytes.decode().split()),
                         ["[default0]:100%", "[default1]:100%"])

    def test_prompt_appears_on_a_terminal_and_its_line_is_completed(self):
        prompt = BAR.replace("\\r{step:3d}%|", "{step:3d}").replace('"#" * step', '""')
        terminal = self.start_on_terminal(prompt, "--nproc_per_node=1")
        terminal.read_until(lambda: terminal.screen.text()[-1] == "[default0]: 10", "a prompt")
        for step in (10, 20, 100):
            (self.folder / f"go{step}").touch()
        self.assertEqual(terminal.read_to_end(), 0)
        self.assertEqual([row for row in terminal.screen.text() if row],
                         ["[default0]:a line of rank 0", "[default0]: 10 20100"])

    def test_help_fits_a_terminal_of_60_columns(self):
        terminal = Terminal([DDPRUN, "--help"])
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.read_to_end(), 0)
        lines = terminal.bytes.decode().split("\r\n")
        too_long = [line for line in lines if len(line) > 60 and " " in line.strip()]
        self.assertEqual([line for line in too_long if not line.lstrip().startswith("-")], [])

    def test_the_report_fits_a_terminal_of_60_columns(self):
        terminal = self.start_on_terminal("import sys; sys.exit('too bad, ' * 20)")
        terminal.read_to_end()
        report = terminal.bytes.decode().split("\r\n")
        begin = next(i for i, line in enumerate(report) if line.startswith("Root cause"))
        own_lines = [line for line in report[begin:] if not line.lstrip().startswith("|")]
        self.assertEqual([line for line in own_lines if len(line) > 60], [])

    def test_prefix_template_comes_from_the_option_or_torchruns_variable(self):
        script = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
        template = "${role_name} ${rank}/${node_rank}/${attempt} ${stream}|"
        output = self.run_in_pipe(script, "--prefix=" + template)
        self.assertEqual(sorted(output.decode().splitlines()),
                         [f"default {rank}/0/0 {stream}" for rank in (0, 1)
                          for stream in ("stderr|err", "stdout|out")])
        variable = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${rank}>"}
        self.assertEqual(sorted(self.run_in_pipe(script, environment=variable).split()),
                         [b"<0>err", b"<0>out", b"<1>err", b"<1>out"])
        output = self.run_in_pipe(script, "--prefix=none", environment=variable)
        self.assertEqual(sorted(output.split()), [b"err", b"err", b"out", b"out"])
        stamped = self.run_in_pipe(script, "--prefix=${time} ").decode().splitlines()
        self.assertEqual(len(stamped), 4)
        for line in stamped:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (out|err)$")

    def test_invalid_prefix_field_is_a_usage_error_with_a_suggestion(self):
        command = [DDPRUN, "--prefix=${rnak}", "true"]
        run = subprocess.run(command, stderr=subprocess.PIPE, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn(b"--prefix=${rnak}: has no field 'rnak'; did you mean ${rank}?", run.stderr)

    def test_rank_filter_applies_to_the_console_and_not_to_files(self):
        script = "import os; print('rank', os.environ['RANK'])"
        output = self.run_in_pipe(script, "--ranks_filter=1", "--tee=1", "--log_dir=logs")
        self.assertEqual(output, b"[default1]:rank 1\n")
        logs = sorted(self.folder.glob("logs/*/attempt_0/*/stdout.log"))
        self.assertEqual([log.read_text() for log in logs], ["rank 0\n", "rank 1\n"])

    def test_lines_that_match_a_filter_also_go_to_a_file_of_the_attempt(self):
        script = """
            import os, sys
            for text in ("loss 1", "step", "a,b"):
                print(text, flush=True)
            print("loss", file=sys.stderr)
            sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
            """
        self.run_in_pipe(textwrap.dedent(script), "--tee=3", "--log_dir=logs", "--max_restarts=1",
                         "--duplicate-stdout-filters=loss,a,,b")
        for attempt in (0, 1):
            folder = next(self.folder.glob(f"logs/*/attempt_{attempt}"))
            lines = (folder / "filtered_stdout.log").read_text().splitlines()
            self.assertLessEqual(set(lines), {f"[default{rank}]:{text}" for rank in (0, 1)
                                              for text in ("loss 1", "a,b")})
            self.assertFalse((folder / "filtered_stderr.log").exists())
        self.assertEqual(len(lines), 4)

    def test_one_worker_reads_the_terminal_and_the_others_have_empty_input(self):
        script = "import os; print(os.environ['RANK'], repr(open(0).readline()))"
        terminal = self.start_on_terminal(script, "--stdin=1")
        terminal.send("hello\n")
        self.assertEqual(terminal.read_to_end(), 0)
        rows = [row for row in terminal.screen.text() if row.startswith("[")]
        self.assertEqual(sorted(rows), ["[default0]:0 ''", "[default1]:1 'hello\\n'"])

    def test_rank_0_reads_the_terminal_without_an_option(self):
        script = "import os; print(os.environ['RANK'], repr(open(0).readline()))"
        terminal = self.start_on_terminal(script)
        terminal.send("hello\n")
        self.assertEqual(terminal.read_to_end(), 0)
        rows = [row for row in terminal.screen.text() if row.startswith("[")]
        self.assertEqual(sorted(rows), ["[default0]:0 'hello\\n'", "[default1]:1 ''"])

    def test_no_worker_reads_the_terminal_with_stdin_none(self):
        script = "import os; print(os.environ['RANK'], repr(open(0).readline()))"
        terminal = self.start_on_terminal(script, "--stdin=none")
        self.assertEqual(terminal.read_to_end(), 0)
        rows = [row for row in terminal.screen.text() if row.startswith("[")]
        self.assertEqual(sorted(rows), ["[default0]:0 ''", "[default1]:1 ''"])

    def test_single_worker_reads_a_pipe_also_after_a_restart(self):
        script = """
            import os, sys
            print(os.read(0, 2))
            sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
            """
        run = self.run_with_input(b"a\nb\n", textwrap.dedent(script), "--nproc_per_node=1",
                                  "--max_restarts=1")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn(b"[default0]:b'a\\n'\n", run.stdout)
        self.assertIn(b"[default0]:b'b\\n'\n", run.stdout)

    def test_rank_0_of_several_workers_reads_a_pipe_and_the_others_have_empty_input(self):
        script = "import os; print(os.environ['RANK'], repr(open(0).read()))"
        run = self.run_with_input(b"a\nb\n", script, "--nproc_per_node=2")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(sorted(run.stdout.splitlines()),
                         [b"[default0]:0 'a\\nb\\n'", b"[default1]:1 ''"])

    def test_pdb_of_a_single_worker_reads_commands_from_a_pipe(self):
        run = self.run_with_input(b"p 40 + 2\nc\n", "breakpoint()\nprint('went on')\n",
                                  "--nproc_per_node=1")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn(b"42", run.stdout)
        self.assertIn(b"went on", run.stdout)

    def test_unreadable_descriptor_is_empty_input(self):
        with open("/dev/null", "wb") as unreadable:
            command = self.command("print(repr(open(0).read()))", "--nproc_per_node=1")
            run = subprocess.run(command, stdin=unreadable, stdout=subprocess.PIPE, timeout=60,
                                 check=True, env={**os.environ, "PYTHON_EXEC": PYTHON})
        self.assertEqual(run.stdout, b"[default0]:''\n")

    def test_report_names_the_option_for_missing_input(self):
        for script in ("breakpoint()\nprint()\n", "input()\n"):
            run = self.run_with_input(b"c\n", script)
            self.assertEqual(run.returncode, 1)
            self.assertIn("hint : its standard input was empty; --stdin=1 passes it",
                          " ".join(run.stdout.decode().split()))
            run = self.run_with_input(b"", script, "--nproc_per_node=1")
            self.assertEqual(run.returncode, 1)
            self.assertNotIn(b"--stdin", run.stdout)

    def test_report_names_the_interpreter_that_lacks_a_module(self):
        run = self.run_with_input(b"", "import no_such_module")
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"the interpreter was {PYTHON}, named by PYTHON_EXEC;",
                      " ".join(run.stdout.decode().split()))

    def run_with_input(self, given, script, *options):
        return subprocess.run(self.command(script, *options), input=given, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False,
                              env={**os.environ, "PYTHON_EXEC": PYTHON, "LOGLEVEL": "WARNING"})

    def test_pdb_can_be_used_in_one_worker(self):
        terminal = self.start_on_terminal("answer = 41\nbreakpoint()\nprint('went on')\n",
                                          "--nproc_per_node=1")
        terminal.read_until(lambda: b"(Pdb)" in terminal.bytes, "pdb's prompt")
        terminal.send("answer + 1\n")
        terminal.read_until(lambda: terminal.screen.text()[-2:] == ["42", "[default0]:(Pdb)"],
                            "the answer and the next prompt")
        terminal.send("continue\n")
        self.assertEqual(terminal.read_to_end(), 0)
        rows = [row for row in terminal.screen.text() if row]
        self.assertEqual(rows[-4:], ["[default0]:(Pdb) answer + 1", "42",
                                     "[default0]:(Pdb) continue", "went on"])

    def test_workers_on_a_terminal_get_the_width_without_the_prefix(self):
        script = "import os; print(*map(os.environ.get, ('COLUMNS', 'LINES', 'TQDM_NCOLS')))"
        unset = {"COLUMNS": None, "LINES": None, "TQDM_NCOLS": None}
        for set_by_user, seen in ((unset, "59 30 58"), ({**unset, "COLUMNS": "7"}, "7 30 58")):
            terminal = self.start_on_terminal(script, "--nproc_per_node=1", columns=70, rows=30,
                                              environment=set_by_user)
            self.assertEqual(terminal.read_to_end(), 0)
            self.assertEqual([row for row in terminal.screen.text() if row],
                             ["[default0]:" + seen])

    @unittest.skipUnless(has_tqdm(), "there is no tqdm")
    def test_tqdm_fills_the_row_of_a_terminal(self):
        script = TQDM + "import time\nbar = tqdm.tqdm(total=2)\nbar.update(1)\ntime.sleep(1000)"
        terminal = self.start_on_terminal(script, "--nproc_per_node=1", columns=120)
        terminal.read_until(lambda: 110 < len(terminal.screen.text()[-1]) < 120, "a wide bar")
        terminal.send("\x03")
        terminal.read_to_end()

    def test_nested_bars_without_prefix_keep_their_rows(self):
        script = r"""
            import os, time
            for step in range(3):
                os.write(2, f"\r outer {step}\n\r inner {step}\x1b[A".encode())
            time.sleep(1000)
            """
        terminal = self.start_on_terminal(textwrap.dedent(script), "--nproc_per_node=1",
                                          "--prefix=none")
        terminal.read_until(lambda: terminal.screen.text() == [" outer 2", " inner 2"], "two rows")
        terminal.send("\x03")
        terminal.read_to_end()

    def test_nested_bars_with_a_prefix_change_no_other_row(self):
        script = r"""
            import os
            for step in range(3):
                os.write(2, f"\r outer {step}s]\n\r in {step}\x1b[A".encode())
            os.write(2, b"\n")
            """
        terminal = self.start_on_terminal(textwrap.dedent(script), "--nproc_per_node=1")
        self.assertEqual(terminal.read_to_end(), 0)
        for row in filter(None, terminal.screen.text()):
            self.assertRegex(row, r"^\[default0\]: (outer \ds\]|in \d)$")

    def test_verbatim_output_is_unchanged_except_for_ddpruns_own_rows(self):
        script = "import os; os.write(1, b'a\\r\\nb\\r1%\\r2%'); os.kill(os.getpid(), 9)"
        run = self.run_with_input(b"", script, "--nproc_per_node=1", "--prefix=none")
        self.assertEqual(run.returncode, 1)
        self.assertTrue(run.stdout.startswith(b"a\r\nb\r1%\r2%\n"), run.stdout)

    def test_file_size_limit_of_logs_stops_no_worker_but_fails_the_run(self):
        script = "for i in range(3000): print(f'line {i:04d}' + 500 * '.')"
        run = self.run_with_file_limit(1024, script, "--tee=1", "--log_dir=logs")
        self.assertEqual(run.returncode, 1, run.stdout[-1000:])
        lines = run.stdout.decode().splitlines()
        self.assertEqual(len([line for line in lines if "]:line" in line]), 6000)
        warnings = [line for line in lines if "File too large" in line]
        self.assertEqual(len(warnings), 4, warnings)  # at the first loss, and at the end

    def test_too_small_file_size_limit_is_reported(self):
        run = self.run_with_file_limit(8, "print('never')")
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertRegex(run.stdout,
                         rb"memory shared with the workers: \d+ bytes cannot be allocated: "
                         rb"File too large; RLIMIT_FSIZE must be at least that")

    def run_with_file_limit(self, kibibytes, script, *options):
        command = f"ulimit -f {kibibytes}; exec " + " ".join(self.command(script, *options))
        return subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, timeout=60,
                              stderr=subprocess.STDOUT, check=False)

    def test_binary_output_is_unchanged_on_console_and_in_files(self):
        script = "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\x00\\x80 \\xc3\\n')"
        output = self.run_in_pipe(script, "--nproc_per_node=1", "--tee=1", "--log_dir=logs")
        self.assertEqual(output, b"[default0]:\xff\xfe\x00\x80 \xc3\n")
        log = next(self.folder.glob("logs/*/attempt_0/0/stdout.log"))
        self.assertEqual(log.read_bytes(), b"\xff\xfe\x00\x80 \xc3\n")

    def test_events_are_valid_json_if_the_last_output_is_binary(self):
        script = "import sys; sys.stderr.buffer.write(b'\\xff\\x00 \\xc3\\n'); sys.exit(3)"
        command = self.command(script, "--nproc_per_node=1", "--events=events")
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.returncode, 1)
        events = [json.loads(line) for line in (self.folder / "events").read_text().splitlines()]
        self.assertEqual(events[-1]["event"], "run_finished")


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
