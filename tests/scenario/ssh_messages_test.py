"""Messages of ddprun --ssh, over a real sshd at several addresses of this machine.

Usage: ssh_messages_test.py DDPRUN. Ends with 77 (skipped) where there is no sshd.
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
    def test_a_dry_run_shows_the_commands_and_starts_no_node(self):
        self.config(PLACE)
        run = self.start("--dry_run")
        self.assertEqual(run.wait(), 0)
        self.assertIn("nodes:\n  node1 (127.0.0.2), 1 worker\n  node2 (127.0.0.3), 1 worker\n",
                      run.text())
        self.assertRegex(run.text(), r"(?m)^node2: '.*ssh' '-F' .*'127.0.0.3' 'exec ")
        self.assertNotIn("rank", run.text())

    def answers(self, *arguments):
        """Returns exit codes and standard error of a run, its dry run and a check of the file."""
        commands = (["--config=cluster.json", "--ssh", *arguments],
                    ["--config=cluster.json", "--ssh", "--dry_run", *arguments],
                    ["config", "check", "cluster.json", "--ssh", *arguments])
        done = [subprocess.run([DDPRUN, *command], cwd=self.folder, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=TIME_LIMIT)
                for command in commands]
        return [(each.returncode, each.stderr) for each in done]

    def check_refused(self, problem, *arguments):
        for answer in self.answers(*arguments):
            self.assertEqual(answer, (2, f"ddprun: {problem}\nTry 'ddprun --help'.\n"))

    def test_run_dry_run_and_check_report_the_same_problems(self):
        self.config(PLACE)
        self.check_refused("--nnodes=1:2: --rdzv_backend=static has a fixed number of nodes; c10d "
                         "takes a range", "--nnodes=1:2")
        self.check_refused("--rdzv_conf=foo=1: unknown key; see 'Settings of the rendezvous' in "
                         "ddprun(1)", "--rdzv_conf=foo=1")
        self.check_refused("node1: --secret_file=gone: No such file or directory; 'ddprun keygen "
                         "gone' writes one, which all nodes need",
                         "--node_name=node1", "--secret_file=gone")
        (self.folder / "file").touch()
        self.check_refused(f"node2: --events={self.folder}/file/log: cannot be written: "
                         "Not a directory", "--node_name=node2",
                         f"--events={self.folder}/file/log")

    def test_a_check_shows_the_same_as_a_dry_run(self):
        self.config(PLACE)
        dry = self.start("--dry_run")
        self.assertEqual(dry.wait(), 0, dry.text())
        check = subprocess.run([DDPRUN, "config", "check", "cluster.json", "--ssh"],
                               cwd=self.folder, capture_output=True, text=True,
                               timeout=TIME_LIMIT)
        self.assertEqual((check.returncode, check.stderr), (0, ""))
        self.assertEqual(check.stdout.splitlines()[:3], [line.rstrip() for line in dry.output[:3]])


class MissingNodes(SshTest):
    def test_a_killed_agent_is_reported_with_its_node_and_signal(self):
        self.config(BUSY, rendezvous={"rdzv_backend": "c10d", "nnodes": "1:2",
                                      "rdzv_endpoint": f"127.0.0.2:{self.free_port()}",
                                      "rdzv_conf": {"last_call_timeout": 2}})
        run = self.start()
        run.wait_for("]:rank 0 of 2")
        run.wait_for("]:rank 1 of 2")
        # All addresses are on this machine, so the first node to join hosts the rendezvous.
        host = re.search("node([12]): .* this node hosts the rendezvous", run.text()).group(1)
        lost = "2" if host == "1" else "1"
        os.kill(self.hosts.agent_of(int(lost) - 1), signal.SIGKILL)
        run.wait_for(f"ddprun: node{lost}: its agent was killed by SIGKILL\n")
        run.wait_for("]:rank 0 of 1")
        (self.folder / "go").touch()
        self.assertEqual(run.wait(), 0, run.text())

    def test_the_last_line_of_a_run_without_enough_nodes_names_the_missing_ones(self):
        self.config(PLACE, nodes=[{"name": "node1", "address": "127.0.0.2"},
                                  {"name": "node2", "address": "127.0.0.99"}])
        run = self.start()
        self.assertEqual(run.wait(), 1, run.text())
        self.assertEqual(run.error[-1], "ddprun: the run ended with exit code 1: only 1 of the "
                         "required 2 nodes is available; node2 was not started\n")

    def test_a_failure_of_ssh_is_reported_once(self):
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

    def test_ctrl_c_before_the_start_of_any_node_ends_the_run_at_once(self):
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
