"""What ddprun --ssh says, over a real sshd on this machine at several of its addresses.

Usage: ssh_words_test.py DDPRUN. Ends with 77 (skipped) where there is no sshd.
"""
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from ssh_runs import DDPRUN, PLACE, TIME_LIMIT, SshTest, run_tests


class BeforeTheStart(SshTest):
    def test_a_dry_run_tells_the_commands_and_starts_nothing(self):
        self.config(PLACE)
        run = self.start("--dry_run")
        self.assertEqual(run.wait(), 0)
        self.assertIn("nodes:\n  node1 (127.0.0.2), 1 worker\n  node2 (127.0.0.3), 1 worker\n",
                      run.text())
        self.assertRegex(run.text(), r"(?m)^node2: '.*ssh' '-F' .*'127.0.0.3' 'exec ")
        self.assertNotIn("rank", run.text())

    def answers(self, *arguments):
        """Of a run, its dry run and a check of the file: exit codes and what is said against it."""
        commands = (["--config=cluster.json", "--ssh", *arguments],
                    ["--config=cluster.json", "--ssh", "--dry_run", *arguments],
                    ["config", "check", "cluster.json", "--ssh", *arguments])
        done = [subprocess.run([DDPRUN, *command], cwd=self.folder, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=TIME_LIMIT)
                for command in commands]
        return [(each.returncode, each.stderr) for each in done]

    def are_refused(self, problem, *arguments):
        for answer in self.answers(*arguments):
            self.assertEqual(answer, (2, f"ddprun: {problem}\nTry 'ddprun --help'.\n"))

    def test_run_dry_run_and_check_refuse_the_same_in_the_same_words(self):
        self.config(PLACE)
        self.are_refused("--nnodes=1:2: --rdzv_backend=static has a fixed number of nodes; c10d "
                         "takes a range", "--nnodes=1:2")
        self.are_refused("--rdzv_conf=foo=1: unknown key", "--rdzv_conf=foo=1")
        self.are_refused("node1: --secret_file=gone: No such file or directory; 'ddprun keygen "
                         "gone' writes one, which all nodes need",
                         "--node_name=node1", "--secret_file=gone")
        (self.folder / "file").touch()
        self.are_refused(f"node2: --events={self.folder}/file/log: cannot be written: "
                         "Not a directory", "--node_name=node2",
                         f"--events={self.folder}/file/log")

    def test_a_check_shows_what_a_dry_run_shows(self):
        self.config(PLACE)
        dry = self.start("--dry_run")
        self.assertEqual(dry.wait(), 0, dry.text())
        check = subprocess.run([DDPRUN, "config", "check", "cluster.json", "--ssh"],
                               cwd=self.folder, capture_output=True, text=True,
                               timeout=TIME_LIMIT)
        self.assertEqual((check.returncode, check.stderr), (0, ""))
        self.assertEqual(check.stdout.splitlines()[:3], [line.rstrip() for line in dry.output[:3]])


if __name__ == "__main__":
    run_tests()
