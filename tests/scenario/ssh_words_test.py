"""What ddprun --ssh says, over a real sshd on this machine at several of its addresses.

Usage: ssh_words_test.py DDPRUN. Ends with 77 (skipped) where there is no sshd.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from ssh_runs import BUSY, DDPRUN, PLACE, TIME_LIMIT, SshTest, run_tests


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
        self.are_refused("--rdzv_conf=foo=1: unknown key; see 'Settings of the rendezvous' in "
                         "ddprun(1)", "--rdzv_conf=foo=1")
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


class MissingNodes(SshTest):
    def test_an_agent_that_was_killed_is_told_of_by_its_node_and_its_signal(self):
        self.config(BUSY, rendezvous={"rdzv_backend": "c10d", "nnodes": "1:2",
                                      "rdzv_endpoint": f"127.0.0.2:{self.free_port()}",
                                      "rdzv_conf": {"last_call_timeout": 2}})
        run = self.start()
        run.wait_for("]:rank 0 of 2")
        run.wait_for("]:rank 1 of 2")
        # All addresses are this machine's, so the first node to come hosts the rendezvous.
        host = re.search("node([12]): .* this node hosts the rendezvous", run.text()).group(1)
        lost = "2" if host == "1" else "1"
        os.kill(self.hosts.agent_of(int(lost) - 1), signal.SIGKILL)
        run.wait_for(f"ddprun: node{lost}: its agent was killed by SIGKILL\n")
        run.wait_for("]:rank 0 of 1")
        (self.folder / "go").touch()
        self.assertEqual(run.wait(), 0, run.text())

    def test_the_last_line_of_a_run_without_enough_nodes_says_who_is_missing(self):
        self.config(PLACE, nodes=[{"name": "node1", "address": "127.0.0.2"},
                                  {"name": "node2", "address": "127.0.0.99"}])
        run = self.start()
        self.assertEqual(run.wait(), 1, run.text())
        self.assertEqual(run.error[-1], "ddprun: the run ended with exit code 1: only 1 node of at "
                         "least 2 can take part; node2 was not started\n")

    def test_what_ssh_says_of_a_failure_is_said_once(self):
        self.config(PLACE, nodes=[{"name": "node1", "address": "127.0.0.2"},
                                  {"name": "node2", "address": "127.0.0.99"}])
        run = self.start()
        self.assertEqual(run.wait(), 1, run.text())
        self.assertEqual(run.text().count("Connection refused"), 1, run.text())
        self.assertIn("ddprun: node2: not started: ssh could not connect: connect to host "
                      "127.0.0.99 port ", run.text())

    def test_the_lines_of_an_agent_name_its_node_once(self):
        self.config(PLACE)
        for arguments in ((), ("--prefix=${rank} ",)):
            run = self.start(*arguments)
            self.assertEqual(run.wait(), 0, run.text())
            for line in run.error:
                self.assertRegex(line, r"^node[12]: 2\d{3}-\d\d-\d\d \S+ info    \S")
            places = [line for line in run.error if " of 2, rank " in line]
            self.assertRegex("".join(sorted(places)), r"node1: .* info    attempt 0: node 0 of 2, "
                             r"rank 0 .*\nnode2: .* info    attempt 0: node 1 of 2, rank 1 ")

    def test_ctrl_c_before_any_node_has_answered_ends_at_once_and_says_so(self):
        ssh = self.folder / "ssh"
        ssh.write_text("#!/bin/sh\necho dialling >&2; echo >&2 waiting; exec sleep 1000\n")
        ssh.chmod(0o755)
        self.config(PLACE)
        run = self.start(PATH=f"{self.folder}:{os.environ['PATH']}")
        run.wait_for("node1: dialling")
        run.wait_for("node2: dialling")
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 128 + signal.SIGINT, run.text())
        self.assertEqual(run.error[-1], "ddprun: the run ended with exit code 130: it was asked to "
                         "stop by SIGINT\n")


if __name__ == "__main__":
    run_tests()
