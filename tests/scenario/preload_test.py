"""Workers that are forked from an interpreter with imported modules are like others.

Usage: preload_test.py DDPRUN [RESTARTS]
RESTARTS: restarts of one run, by default 3.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children, living_children

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
RESTARTS = int(sys.argv.pop(1)) if sys.argv[1:] and sys.argv[1].isdigit() else 3
FACTS = pathlib.Path(__file__).resolve().parent / "preload_facts.py"
MODULES = "json,multiprocessing,threading,random"
TIME_LIMIT = 60 + 3 * RESTARTS  # seconds
LOOK_AGAIN = 0.01  # seconds
WITHOUT = "--preload: workers start without preloaded modules: "

# A worker's ends: the argument, and the exit code or the negative signal.
ENDS = {
    "sys.exit(0)": 0,
    "sys.exit(3)": 3,
    "sys.exit('text')": 1,
    "os._exit(4)": 4,
    "1 / 0": 1,
    "raise KeyboardInterrupt": -signal.SIGINT,
    "os.abort()": -signal.SIGABRT,
    "os.kill(os.getpid(), 9)": -signal.SIGKILL,
    "os.kill(os.getpid(), 15)": -signal.SIGTERM,
    "ctypes.string_at(0)": -signal.SIGSEGV,
    "threading.Thread(target=os._exit, args=(5,)).start()": 5,
}


class PreloadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        adopt_orphans()
        self.addCleanup(self.check_nothing_is_left)

    def check_nothing_is_left(self):
        self.assertEqual(end_children(), [])

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def start(self, *arguments, stdin=subprocess.DEVNULL, **variables):
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "TMPDIR": str(temporary),
            "PYTHON_EXEC": sys.executable,
            **variables,
        }
        return subprocess.Popen(
            [DDPRUN, "--events=events", *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, run, code=0):
        """The output of a run that has left no files."""
        output, _ = run.communicate(timeout=TIME_LIMIT)
        self.assertEqual(run.returncode, code, output)
        self.assertEqual(os.listdir(self.folder / "tmp"), [])
        return output

    def run_ddprun(self, *arguments, code=0, **variables):
        return self.finish(self.start(*arguments, **variables), code)

    def events(self, name):
        lines = (self.folder / "events").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_for(self, path):
        until = time.monotonic() + TIME_LIMIT
        while not (self.folder / path).exists():
            self.assertLess(time.monotonic(), until, f"no {path}")
            time.sleep(LOOK_AGAIN)

    def facts(self, *options, program, **variables):
        """Facts by rank, and what differs between the workers."""
        ranks = []
        output = self.run_ddprun(
            "--nproc_per_node=2", *options, *program, self.folder / "facts", **variables
        )
        self.assertEqual("--preload: imported json, " in output, "--preload" in str(options))
        for rank in (0, 1):
            path = self.folder / f"facts-{rank}"
            ranks.append(json.loads(path.read_text()))
            path.unlink()
        return ranks

    def check_facts(self, *options, program, **variables):
        plain = self.facts(*options, program=program, **variables)
        preloaded = self.facts(f"--preload={MODULES}", *options, program=program, **variables)
        for rank in (0, 1):
            for name, fact in plain[rank]["facts"].items():
                # All workers have the command line of the interpreter.
                if name == "command line" and "--pass_local_rank" in options:
                    continue
                with self.subTest(rank=rank, fact=name):
                    self.assertEqual(preloaded[rank]["facts"][name], fact)
        for one, other in zip(preloaded[0]["own"], preloaded[1]["own"]):
            self.assertNotEqual(one, other)

    def test_a_script_sees_the_same_process_and_interpreter(self):
        cpus = sorted(os.sched_getaffinity(0))
        for options in (
            [],
            ["--redirects=3", "--log_dir=logs"],
            [f"--affinity={cpus[0]};{cpus[-1]}"],
            ["--pass_local_rank"],
        ):
            with self.subTest(options=options):
                self.check_facts(*options, program=[FACTS])

    def test_the_stream_of_standard_input_is_that_of_a_pipe(self):
        read_end, write_end = os.pipe()
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            self.check_facts("--stdin=0", program=[FACTS], stdin=pipe)

    def test_folders_and_archives_see_the_same_path(self):
        main = (
            "import os, sys, calendar, beside\n"
            "print(sys.path[0], __file__, beside.__file__, calendar.__file__)\n"
        )
        self.write("beside.py", "")
        for name, text in {"__main__.py": main, "beside.py": "", "calendar.py": ""}.items():
            self.write(f"program/{name}", text)
        with zipfile.ZipFile(self.folder / "program.zip", "w") as archive:
            for path in (self.folder / "program").glob("*.py"):
                archive.write(path, path.name)
        for program in ("program", "program.zip"):
            lines = []
            for options in ([], ["--preload=beside,calendar"]):
                output = self.run_ddprun(*options, "--run_path", program)
                self.assertEqual("imported beside and calendar" in output, bool(options))
                lines.append(re.findall(r"^\[default0\]:(.*)", output, re.M))
            self.assertEqual(lines[0], lines[1])

    def test_a_module_sees_the_same_process_and_interpreter(self):
        package = self.folder / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "facts.py").write_text(FACTS.read_text())
        self.check_facts(program=["-m", "package.facts"])

    def test_variables_of_the_interpreter_and_another_sitecustomize_have_effect(self):
        self.write(
            "own/sitecustomize.py",
            "import os, sys; sys.customized = __file__; os.environ['OF_SITE'] = '1'\n",
        )
        self.check_facts(
            "--omp_num_threads=3",
            program=[FACTS],
            PYTHONPATH=str(self.folder / "own"),
            PYTHONWARNINGS="error::UserWarning:nowhere",
            PYTHONFAULTHANDLER="1",
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONUTF8="1",
            LC_ALL="C",
        )
        program = self.write("p.py", "import sys; print(sys.customized)")
        output = self.run_ddprun("--preload=json", program, PYTHONPATH=str(self.folder / "own"))
        self.assertIn(str(self.folder / "own" / "sitecustomize.py"), output)

    def test_ends_of_workers_are_reported_alike(self):
        program = self.write(
            "end.py",
            "import ctypes, os, sys, threading\neval(sys.argv[1]) if 'raise' not in "
            "sys.argv[1] else exec(sys.argv[1])\n",
        )
        for end, status in ENDS.items():
            reports = []
            for options in ([], ["--preload=ctypes,threading"]):
                (self.folder / "events").unlink(missing_ok=True)
                output = self.run_ddprun(*options, program, end, code=0 if status == 0 else 1)
                self.assertEqual("--preload: imported ctypes" in output, bool(options))
                exits = self.events("worker_exited")
                reports.append([[event.get("exit_code"), event.get("signal")] for event in exits])
                # Messages about faults contain the address of a thread.
                reports[-1].append(
                    re.findall(r"^\[default0\]:(.*)", re.sub("0x[0-9a-f]+", "", output), re.M)
                )
            with self.subTest(end=end):
                self.assertEqual(reports[0], reports[1])
                code, number = reports[1][0]
                self.assertEqual(-getattr(signal, number) if number else code, status)

    def test_modules_are_imported_once_for_all_workers_and_restarts(self):
        self.write("counted.py", "open('imports', 'a').write('.')\n")
        # Restarts after fast failures are delayed.
        program = self.write(
            "p.py",
            "import counted, os, sys, time\ntime.sleep(2.1)\n"
            "sys.exit(os.environ['RANK'] == '1' and "
            "os.environ['TORCHELASTIC_RESTART_COUNT'] != sys.argv[1])\n",
        )
        self.run_ddprun(
            "--nproc_per_node=3",
            f"--max_restarts={RESTARTS}",
            "--preload=counted",
            program,
            RESTARTS,
        )
        self.assertEqual((self.folder / "imports").read_text(), ".")
        self.assertEqual(len(self.events("worker_started")), 3 * (RESTARTS + 1))

    def test_a_changed_module_is_imported_again(self):
        self.write("value.py", "value = 1\n")
        program = self.write(
            "p.py",
            "import os, sys, value\nprint('value', value.value, flush=True)\n"
            "open('value.py', 'w').write('value = 22\\n')\n"
            "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')\n",
        )
        output = self.run_ddprun("--max_restarts=1", "--preload=value", program)
        self.assertEqual(re.findall(r"value (\d+)", output), ["1", "22"])
        changed = str(self.folder / "value.py")
        self.assertIn(f"--preload: {changed} has changed: the modules are imported again\n", output)

    def test_auto_imports_what_the_program_imports_before_it_changes_the_environment(self):
        self.write("own.py", "import colorsys\nopen('own', 'a').write('.')\n")
        program = self.write(
            "p.py",
            '"""Text."""\nimport sys, os.path as path\nfrom xml import dom\nimport own\n'
            "try:\n    import no_such_module\nexcept ImportError:\n    pass\n"
            "os = sys.modules['os']\nos.environ['A'] = 'b'\nimport wave\n",
        )
        output = self.run_ddprun("--preload=auto", program)
        self.assertIn("imported os, xml and colorsys in ", output)
        self.assertEqual((self.folder / "own").read_text(), ".")

    def test_a_module_that_makes_forks_unsafe_is_imported_by_the_workers(self):
        device = os.path.realpath("/dev/ptmx")
        cases = {
            "starts threads": "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
            r"leaves socket:\[\d+\] open": "import socket\none = socket.socket()\n",
            f"leaves {device} open": f"import os\none = os.open('{device}', os.O_RDWR)\n",
            "changes the working directory": "import os\nos.chdir('/')\n",
            r"changes sys\.path": "import sys\nsys.path.insert(0, '/')\n",
            "leaves a process running": "import subprocess\n"
            "one = subprocess.Popen(['sleep', '1000'])\n",
            r"reads RANK, which ddprun sets for each worker, in \S+unsafe\.py:2": "import os\n"
            "rank = os.environ.get('RANK')\n",
        }
        program = self.write(
            "p.py", "import calendar, unsafe\nprint('rank', getattr(unsafe, 'rank', None))\n"
        )
        for reason, text in cases.items():
            self.write("unsafe.py", text)
            output = self.run_ddprun(
                "--nproc_per_node=2", "--preload=calendar,unsafe,json", program
            )
            with self.subTest(reason=reason):
                self.assertRegex(
                    output,
                    "warning node 0: --preload: unsafe is not preloaded, nor the modules "
                    f"after it: its import {reason}\n",
                )
                self.assertIn("imported calendar in ", output)
                if "RANK" in reason:
                    self.assertEqual(sorted(re.findall(r"rank (\d)", output)), ["0", "1"])

    def test_globals_of_the_program_are_finalized(self):
        self.write("other.py", "")
        program = self.write(
            "p.py",
            "import other\ndef function(): pass\nclass Text:\n"
            "    def __del__(self): print('deleted', flush=True)\n"
            "text, file = Text(), open('written', 'w')\nprint('line', file=file)\n"
            "other.file = open('written by other', 'w')\nprint('line', file=other.file)\n",
        )
        output = self.run_ddprun("--preload=other", program)
        self.assertIn("--preload: imported other", output)
        self.assertIn("deleted\n", output)
        for name in ("written", "written by other"):
            self.assertEqual((self.folder / name).read_text(), "line\n")

    def test_auto_names_the_statement_at_which_it_ends(self):
        for statement in (
            "os.environ['A'] = 'b'",
            "os.environ |= {'A': 'b'}",
            "os.environ.update(A='b')",
            "name['A'] = 'b'",
            "os.putenv('A', 'b')",
            "sys.path.append('b')",
            "if True: sys.path[0] = 'b'",
            "os.chdir('.')",
            "class C: os.environ['A'] = 'b'",
            "json.attribute = 1",
        ):
            program = self.write(
                "p.py",
                f"import json, os, sys\nfrom os import environ as name\nA = os.environ.get('A')\n"
                f"def f(): os.environ['A'] = 'b'\n{statement}\nimport wave\n",
            )
            output = self.run_ddprun("--preload=auto", program)
            with self.subTest(statement=statement):
                self.assertIn(f"--preload: auto ends at {program}:5, which may affect", output)
                self.assertIn("--preload: imported json and os in ", output)

    def test_auto_names_no_statement_without_imports_behind_it(self):
        for files, end in (
            ({"p.py": "import json\njson.attribute = 1\ndef f(): import wave\n"}, None),
            ({"p.py": "import own\nA = 1\n", "own.py": "import json\njson.a = 1\n"}, None),
            (
                {"p.py": "import own\nimport wave\n", "own.py": "import json\njson.a = 1\n"},
                "own.py:2",
            ),
            (
                {"p.py": "import own, wave\n", "own.py": "import json\njson.a = 1\n"},
                "own.py:2",
            ),
            (
                {
                    "p.py": "import json\njson.a = 1\ntry:\n    import wave\n"
                    "except ImportError:\n    pass\n"
                },
                "p.py:2",
            ),
        ):
            for name, text in files.items():
                program = self.write(name, text)
            output = self.run_ddprun("--preload=auto", self.folder / "p.py")
            with self.subTest(files=files):
                self.assertIn("--preload: imported json in ", output)
                if end is None:
                    self.assertNotIn("auto ends at", output)
                else:
                    self.assertIn(f"auto ends at {self.folder / end}, which", output)

    def test_an_import_that_takes_long_is_named(self):
        self.write("slow.py", "import time; time.sleep(12)\n")
        program = self.write("p.py", "print('started')\n")
        output = self.run_ddprun("--preload=slow", program)
        self.assertIn("--preload: still importing slow after 10 s\n", output)
        self.assertIn("--preload: imported slow in ", output)

    def test_modules_that_cannot_be_imported_are_reported(self):
        self.write("broken.py", "raise ValueError('of this module')\n")
        program = self.write("p.py", "print('started')\n")
        output = self.run_ddprun("--preload=broken,no_such_module", program)
        self.assertIn(
            "--preload: module broken cannot be imported: ValueError: of this module\n", output
        )
        self.assertIn(
            "--preload: module no_such_module cannot be imported: ModuleNotFoundError: "
            "No module named 'no_such_module'\n",
            output,
        )
        self.assertIn(WITHOUT + "no module could be imported\n", output)
        self.assertIn("started\n", output)

    def test_the_program_never_runs_without_a_rank(self):
        """The interpreter does not read PYTHONPATH, or is not the process that ddprun starts."""
        program = self.write("p.py", "import os; print('rank', os.environ.get('RANK'))\n")
        python = sys.executable
        for script in (
            f'exec {python} -I "$@"',
            f'exec {python} -S "$@"',
            f'exec {python} -E "$@"',
            f'{python} "$@"; exit $?',
        ):
            wrapper = self.write("python3", f"#!/bin/sh\n{script}\n")
            wrapper.chmod(0o755)
            output = self.run_ddprun("--preload=json", program, PYTHON_EXEC=str(wrapper))
            self.assertIn(WITHOUT + "the interpreter does not read PYTHONPATH ", output)
            self.assertEqual(re.findall(r"rank \S+", output), ["rank 0"])

    def test_an_interpreter_that_is_started_before_the_programs_is_not_used(self):
        program = self.write("p.py", "import os; print('rank', os.environ.get('RANK'))\n")
        python = sys.executable
        text = f'#!/bin/sh\n{python} -c "import sys" || exit 9\nexec {python} "$@"\n'
        wrapper = self.write("python3", text)
        wrapper.chmod(0o755)
        output = self.run_ddprun("--preload=json", program, PYTHON_EXEC=str(wrapper))
        self.assertIn("--preload: imported json in ", output)
        self.assertEqual(re.findall(r"rank \S+", output), ["rank 0"])

    def test_changes_of_the_environment_by_imports_are_kept(self):
        self.write(
            "changing.py",
            "import os\nos.environ['ADDED'] = '1'\nos.environ['CHANGED'] += '2'\n"
            "del os.environ['REMOVED']\n",
        )
        program = self.write(
            "p.py",
            "import changing, os\n"
            "print([os.environ.get(name) for name in ('ADDED', 'CHANGED', 'REMOVED', 'RANK')])\n",
        )
        output = self.run_ddprun("--preload=changing", program, CHANGED="1", REMOVED="1")
        self.assertIn("--preload: imported changing in ", output)
        self.assertIn("['1', '12', None, '0']\n", output)

    def test_a_program_that_is_not_run_by_python_is_refused(self):
        output = self.run_ddprun("--preload=json", "--no_python", "/bin/true", code=2)
        self.assertIn("--preload: /bin/true is not run by Python\n", output)

    def test_the_death_of_the_interpreter_only_costs_imports(self):
        self.write("counted.py", "open('imports', 'a').write('.')\n")
        program = self.write(
            "p.py",
            "import counted, os, sys, time\n"
            "first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
            "open('started', 'w')\n"
            "while first and not os.path.exists('go'): time.sleep(0.01)\nsys.exit(first)\n",
        )
        run = self.start("--max_restarts=1", "--preload=counted", program)
        self.wait_for("started")
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="utf-8") as file:
            names = {
                pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                for pid in file.read().split()
            }
        interpreters = [int(pid) for pid, name in names.items() if name == "ddprun-preload"]
        self.assertEqual(len(interpreters), 1, names)
        os.kill(interpreters[0], signal.SIGKILL)
        self.write("go", "")
        self.finish(run)
        self.assertEqual((self.folder / "imports").read_text(), "..")

    def test_signals_end_a_run_during_imports(self):
        self.write("slow.py", "open('importing', 'w'); import time; time.sleep(1000)\n")
        program = self.write("p.py", "open('program', 'w')\n")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            run = self.start("--preload=slow", program)
            self.wait_for("importing")
            begin = time.monotonic()
            run.send_signal(number)
            output, _ = run.communicate(timeout=TIME_LIMIT)
            self.assertNotEqual(run.returncode, 0)
            self.assertNotIn("still importing", output)
            self.assertLess(time.monotonic() - begin, TIME_LIMIT / 2)
            self.assertFalse((self.folder / "program").exists())
            (self.folder / "importing").unlink()
            until = time.monotonic() + TIME_LIMIT
            while living_children() and time.monotonic() < until:
                time.sleep(LOOK_AGAIN)


if __name__ == "__main__":
    unittest.main()
