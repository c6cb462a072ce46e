"""Output of collective_bench with small sizes; times are not checked.

Usage: collective_bench_test.py FOLDER_OF_PROGRAMS BACKEND...
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(sys.argv.pop(1))
BACKENDS = sys.argv[1:]
del sys.argv[1:]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
               "scatter", "all_to_all", "sendrecv"]
TIME_LIMIT = 100  # seconds


def run(*arguments, ranks=2):
    command = [PROGRAMS / "ddprun", f"--nproc_per_node={ranks}", "--omp_num_threads=1",
               PROGRAMS / "collective_bench", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=TIME_LIMIT, check=False)


class CollectiveBenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-bench-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_each_collective_is_correct_and_recorded_on_each_backend(self):
        files = {"csv": self.folder / "figures.csv", "json": self.folder / "figures.json"}
        end = run(*COLLECTIVES, "-b", "12", "-e", "1200", "-f", "10", "-n", "1", "--rounds=1",
                  f"--vs={','.join(BACKENDS)}", f"--csv={files['csv']}", f"--json={files['json']}",
                  ranks=3)
        self.assertEqual(end.returncode, 0, end.stdout + end.stderr)
        with open(files["csv"], encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        expected = [(collective, size, backend) for collective in COLLECTIVES
                    for size in (12, 120, 1200) for backend in BACKENDS]
        self.assertEqual([(row["collective"], int(row["bytes"]), row["backend"]) for row in rows],
                         expected)
        self.assertEqual({row["wrong"] for row in rows}, {"0"})
        figures = json.loads(files["json"].read_text(encoding="utf-8"))
        self.assertEqual(figures["ranks"], 3)
        self.assertEqual(len(figures["figures"]), len(expected))
        table = [line for line in end.stdout.splitlines() if "]:#" not in line]
        self.assertEqual(len(table), len(expected))

    def test_all_types_and_operations(self):
        for type_name in ("float", "double", "half", "bfloat16", "int32", "int64", "uint8"):
            for operation in ("sum", "avg", "prod", "min", "max"):
                end = run("-b", "64", "-e", "64", "-n", "1", "--rounds=1", "-d", type_name, "-o",
                          operation, "--own_memory")
                self.assertEqual(end.returncode, 0, end.stdout + end.stderr)

    def test_bandwidth_follows_from_the_time(self):
        file = self.folder / "figures.csv"
        run("all_reduce", "all_gather", "broadcast", "-b", "4K", "-e", "4K", "-n", "1",
            "--rounds=1", f"--csv={file}", ranks=4)
        with open(file, encoding="utf-8") as opened:
            rows = list(csv.DictReader(opened))
        for row, factor in zip(rows, (2 * 3 / 4, 3 / 4, 1)):
            bandwidth = 4096 / float(row["time_us"]) / 1e3
            self.assertAlmostEqual(float(row["algbw_gb_s"]), bandwidth, places=3)
            self.assertAlmostEqual(float(row["busbw_gb_s"]), bandwidth * factor, places=3)

    def test_latencies_of_single_calls(self):
        file = self.folder / "figures.json"
        end = run("-b", "1K", "-e", "1K", "-n", "50", "--rounds=2", "--latencies", "--rewrite",
                  f"--json={file}")
        self.assertEqual(end.returncode, 0, end.stdout + end.stderr)
        self.assertIn("rewritten before each call", end.stdout)
        figure = json.loads(file.read_text(encoding="utf-8"))["figures"][0]
        self.assertGreaterEqual(figure["p99_us"], figure["time_us"])
        self.assertGreater(figure["time_us"], 0)

    def test_invalid_options_are_reported(self):
        for arguments, problem in (
                (["all_of_it"], "all_of_it"),
                (["-b", "8", "-e", "4"], "--minbytes: 8 is more than --maxbytes, which is 4"),
                (["-b", "3"], "--minbytes: 3 is no multiple of the 4 bytes of a float"),
                (["-b", "4", "-i", "6"], "--stepbytes: 6 is no multiple of the 4 bytes of a float"),
                (["-b", "4", "-i", "0"], "--stepbytes: 0 leads nowhere"),
                (["-b", "-5"], "\"-5\" is no size (such as 4, 64K, 32M, 1G)"),
                (["-b", "1.5K"], "\"1.5K\" is no size"), (["-b", "K"], "\"K\" is no size"),
                (["-e", "99999999999999999999"], "\"99999999999999999999\" is no size"),
                (["-b", "64", "-e", "4T", "-f", "1024"], "--maxbytes: the buffers of 1 ranks over"),
                (["-b", "1", "-e", "1G", "-i", "1", "-d", "uint8"], "more than 1000 sizes"),
                (["-f", "1"], "--stepfactor"), (["-n", "0"], "--iters"), (["-c", "2"], "--check"),
                (["-d", "string"], "string"), (["-o", "add"], "add"),
                (["broadcast", "-r", "1"], "--root: 1 is not within 0..0"),
                (["--vs=pigeon"], "there is no backend \"pigeon\""),
                (["--vs=host,host"], "--vs: host is named twice"),
                (["--vs=host,,gloo"], "--vs: a backend has no name"),
                (["--vs=", "-b", "4"], "--vs: there is no value behind the ="),
                (["--csv=/no/such/folder/f"], "opening /no/such/folder/f: No such file"),
                ([f"--json={self.folder}"], f"opening {self.folder}: Is a directory")):
            end = run(*arguments, ranks=1)
            self.assertNotEqual(end.returncode, 0, arguments)
            self.assertIn(problem, end.stdout + end.stderr)
            self.assertNotIn("backend       time", end.stdout, "before anything is measured")

    def test_the_help_names_values_and_explains_columns(self):
        end = run("--help", ranks=1)
        text = end.stdout.replace("[default0]:", "")
        for words in ("{avg,max,min,prod,sum}", "busbw, what that means", "#wrong elements"):
            self.assertIn(words, text)
        self.assertTrue(all(letter.isprintable() for letter in text.replace("\n", "")))

    def test_undrawable_input_is_reported(self):
        figures = self.folder / "figures.json"
        figures.write_text('{"figures": []}\n', encoding="utf-8")
        plot = pathlib.Path(__file__).parents[2] / "scripts/plot_bench"
        for picture, problem in (("f.svg", "is not a file that collective_bench --csv has"),
                                 ("f.eps", "must end in .svg, .png, .pdf")):
            end = subprocess.run([plot, figures, picture], capture_output=True, text=True,
                                 timeout=TIME_LIMIT, check=False)
            self.assertEqual(end.returncode, 1)
            self.assertIn(problem, end.stderr)


unittest.main()
