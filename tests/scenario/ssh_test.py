"""Runs of ddprun --ssh over a real sshd at several addresses of this machine.

Usage: ssh_test.py DDPRUN. Ends with 77 (skipped) where there is no sshd.
"""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import termios

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from ssh_hosts import MARKER
from ssh_runs import BUSY, DDPRUN, PLACE, TIME_LIMIT, SshTest, run_tests


class TwoNodes(SshTest):
    def test_each_line_has_the_name_of_its_node_and_its_stream(self):
        self.config("echo one $RANK; echo two $RANK; echo oops $RANK >&2")
        run = self.start()
        self.assertEqual(run.wait(), 0, run.text())
        for rank, node in ((0, "node1"), (1, "node2")):
            own = [line for line in run.output if line.startswith(node)]
            self.assertEqual(own, [f"{node}: [default0]:one {rank}\n",
                                   f"{node}: [default0]:two {rank}\n"])
            self.assertIn(f"{node}: [default0]:oops {rank}\n", run.error)
        self.assertEqual(len(run.output), 4, run.text())
        self.assertTrue(all(line.startswith(("node1: ", "node2: ")) for line in run.error))

    def test_a_given_prefix_replaces_the_names_of_nodes(self):
        self.config(PLACE)
        run = self.start("--prefix=<${rank}> ")
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual(sorted(run.output), ["<0> rank 0 of 2\n", "<1> rank 1 of 2\n"])

    def test_program_arguments_and_variables_reach_the_workers_unchanged(self):
        self.config("true", ssh={"forward_variables": [MARKER, "GREETING_*"]})
        odd = "it's \"$HOME\" `x`\\ \t;|&*"
        run = self.start("--no_python", "/bin/sh", "-c",
                         'printf "%s|" "$$1" "$$GREETING_A" "$$PWD" "$${OTHER-none}"; echo', "sh",
                         odd.replace("$", "$$"), GREETING_A="two words", OTHER="not sent")
        self.assertEqual(run.wait(), 0, run.text())
        expected = f"[default0]:{odd}|two words|{self.folder}|none|\n"
        self.assertEqual(sorted(run.output), [f"node1: {expected}", f"node2: {expected}"])

    def test_exit_code_is_that_of_the_run(self):
        self.config("[ $RANK = 1 ] && exit 7; sleep 1000", restart={"exit_code": "worker"})
        run = self.start()
        self.assertEqual(run.wait(), 7, run.text())

    def test_a_worker_may_fail_with_the_code_of_a_usage_error(self):
        self.config("exit 2", restart={"exit_code": "worker"})
        run = self.start()
        self.assertEqual(run.wait(), 2, run.text())
        self.assertNotIn("stopping the run", run.text())
        self.assertIn("FAILED after 1 attempt", run.text())

    def test_the_final_report_and_common_lines_are_shown_once(self):
        self.config("[ $RANK = 1 ] && { echo why >&2; exit 3; }; sleep 1000",
                    defaults={"nproc_per_node": 2})
        run = self.start()
        self.assertEqual(run.wait(), 1, run.text())
        errors = "".join(run.error)
        report = errors[errors.index("=" * 100):]
        self.assertEqual(report.count("=" * 100), 2, errors)
        self.assertTrue(report.endswith("=" * 100 + "\n"), errors)
        self.assertIn("rank      : 1 on node node1 (", report)
        self.assertRegex(report, r"time      : 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d UTC, ")
        self.assertEqual(errors.count("FAILED after"), 1)
        for line in ("meeting the other nodes at", "OMP_NUM_THREADS is set to 1"):
            self.assertEqual(errors.count(line), 1, errors)
        self.assertNotIn("this machine is node", errors)
        self.assertEqual(len(re.findall(r": node \d of 2, ranks ", errors)), 2, errors)

    def test_a_success_is_reported_once(self):
        self.config(PLACE)
        run = self.start()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual(run.text().count("the run has ended after 1 attempt: all workers"), 1)

    def test_output_that_cannot_be_written_is_a_failure(self):
        self.config(PLACE)
        with open("/dev/full", "w") as full:
            done = subprocess.run([DDPRUN, "--config=cluster.json", "--ssh"], cwd=self.folder,
                                  env={**os.environ, MARKER: str(self.folder)}, text=True,
                                  stdout=full, stderr=subprocess.PIPE, timeout=TIME_LIMIT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("ddprun: console: No space left on device", done.stderr)
        self.assertIn("ddprun: all workers have succeeded, but not all of their output could be "
                      "written: exit code 1\n", done.stderr)

    def test_ctrl_c_stops_all_nodes(self):
        self.config(BUSY)
        run = self.start()
        run.wait_for("]:rank 1 of 2")
        run.wait_for("]:rank 0 of 2")
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 128 + signal.SIGINT, run.text())
        self.assertEqual(run.text().count("received SIGINT"), 1, run.text())

    def test_workers_that_ignore_a_signal_are_killed_by_the_second(self):
        self.config("trap 'echo ignored by $RANK' INT TERM; " + BUSY)
        run = self.start()
        run.wait_for("]:rank 1 of 2")
        run.wait_for("]:rank 0 of 2")
        run.process.send_signal(signal.SIGINT)
        run.wait_for("ignored by 0")
        run.wait_for("ignored by 1")
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 128 + signal.SIGINT, run.text())

    def test_no_process_is_left_on_any_node_when_the_starter_is_killed(self):
        self.config(BUSY)
        run = self.start()
        run.wait_for("]:rank 1 of 2")
        run.wait_for("]:rank 0 of 2")
        run.process.kill()
        run.wait()
        self.assertEqual(self.hosts.left_over(), {})

    def test_no_process_is_left_on_a_node_whose_supervisor_is_killed(self):
        self.config(BUSY, rendezvous={"rdzv_backend": "c10d", "nnodes": "1:2",
                                      "rdzv_endpoint": f"127.0.0.2:{self.free_port()}",
                                      "rdzv_conf": {"last_call_timeout": 60}})
        run = self.start()
        run.wait_for("]:rank 1 of 2")
        supervisors = self.hosts.agents().values()
        self.assertEqual(len(supervisors), 2)
        for pid in supervisors:
            os.kill(pid, signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        self.assertIn("lost: the connection by ssh has ended", run.text())

    def test_no_stream_contains_the_task_of_a_started_agent(self):
        """The task contains the secret of the run."""
        self.config(BUSY)
        run = self.start()
        run.wait_for("rank 0 of 2")
        run.wait_for("rank 1 of 2")
        supervisors = self.hosts.agents().values()
        self.assertEqual(len(supervisors), 2)
        for pid in supervisors:
            with open(f"/proc/{pid}/fd/0", "rb", buffering=0) as stream:
                unread = fcntl.ioctl(stream, termios.FIONREAD, bytes(4))
            self.assertEqual(unread, bytes(4))
        (self.folder / "go").touch()
        self.assertEqual(run.wait(), 0, run.text())

    def test_output_of_the_login_shell_is_shown_and_ignored(self):
        keys = self.folder / "authorized_keys"
        keys.write_text('command="echo Welcome; eval \\"$SSH_ORIGINAL_COMMAND\\"" '
                        + keys.read_text())
        self.config(PLACE)
        run = self.start()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertIn("node1: Welcome\n", run.error)
        self.assertIn("node1: [default0]:rank 0 of 2\n", run.output)

    def test_the_node_of_the_starter_needs_no_ssh(self):
        self.config(PLACE)
        (self.folder / "authorized_keys").write_text("")
        run = self.start("--node_name=node1", "--nnodes=1", "--master_addr=127.0.0.2")
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual(run.output, ["node1: [default0]:rank 0 of 1\n"])


class Example(SshTest):
    def test_the_example_runs(self):
        """Its addresses are names for addresses of this machine, in ssh's own configuration."""
        source = pathlib.Path(__file__).parents[2] / "configs" / "ssh.json"
        (self.folder / "cluster.json").write_text(source.read_text())
        hosts = "".join(f"Host 192.168.10.{i + 1}\n HostName {address}\n Port {self.hosts.port}\n"
                        for i, address in enumerate(self.hosts.addresses))
        client = self.folder / "ssh_config"
        client.write_text(client.read_text() + hosts)
        wrapper = self.folder / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {client} "$@"\n')
        wrapper.chmod(0o755)
        run = self.start("--nproc_per_node=1", "--master_addr=127.0.0.2",
                         f"--master_port={self.free_port()}", "--no_python", "/bin/sh", "-c",
                         "echo rank $$RANK of $$WORLD_SIZE, data $$DATA", DATA="here",
                         PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual(sorted(run.output), [f"node{i + 1}: [default0]:rank {i} of 2, data here\n"
                                              for i in range(2)])


class Unreachable(SshTest):
    def fails(self, reason):
        run = self.start()
        self.assertEqual(run.wait(), 1, run.text())
        self.assertRegex(run.text(), reason)
        self.assertIn("stopping the run: only 1 of the required 2 nodes is available", run.text())

    def test_an_unreachable_node_ends_the_run_at_once(self):
        self.config(PLACE, nodes=[{"name": "node1", "address": "127.0.0.2"},
                                  {"name": "node2", "address": "127.0.0.99"}])
        self.fails("node2: not started: ssh could not connect: .*Connection refused")

    def test_the_run_continues_without_a_node_it_does_not_need(self):
        self.config(PLACE, nodes=[{"name": "node1", "address": "127.0.0.2"},
                                  {"name": "node2", "address": "127.0.0.99"}],
                    rendezvous={"rdzv_backend": "c10d", "nnodes": "1:2",
                                "rdzv_endpoint": f"127.0.0.2:{self.free_port()}",
                                "rdzv_conf": {"last_call_timeout": 0.5}})
        run = self.start()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertIn("node2: not started: ", run.text())
        self.assertIn("node1: [default0]:rank 0 of 1\n", run.output)

    def test_a_changed_host_key_is_refused(self):
        self.config(PLACE)
        self.hosts.make_key("other_key")
        self.hosts.know("other_key")
        run = self.start()
        self.assertEqual(run.wait(), 1)
        self.assertIn("node1: not started: ssh could not connect: Host key verification failed.",
                      run.text())
        self.assertIn("REMOTE HOST IDENTIFICATION HAS CHANGED", run.text())

    def test_a_rejected_key_does_not_lead_to_a_prompt(self):
        self.config(PLACE)
        (self.folder / "authorized_keys").write_text("")
        run = self.start()
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.text(),
                         "node1: not started: ssh could not connect: .*Permission denied")

    def test_a_missing_ddprun_is_reported(self):
        self.config(PLACE, ssh={"program": "/no/such/ddprun"})
        run = self.start()
        self.assertEqual(run.wait(), 1)
        self.assertIn("node2: not started: /no/such/ddprun cannot be run there", run.text())

    def test_a_program_other_than_ddprun_is_reported(self):
        self.config(PLACE, ssh={"program": "/bin/false"})
        run = self.start()
        self.assertEqual(run.wait(), 1)
        self.assertIn("node1: not started: ddprun there ended with exit code 1", run.text())

    def test_a_usage_error_found_by_the_starter_has_exit_code_2(self):
        self.config(PLACE)
        run = self.start("--nproc_per_node=many")
        self.assertEqual(run.wait(), 2, run.text())
        self.assertIn("ddprun: --nproc_per_node=many: is neither", run.text())
        self.assertNotIn("node1", run.text())

    def test_a_usage_error_found_by_the_nodes_has_exit_code_2(self):
        self.config(PLACE)
        run = self.start("--no_python", "/no/such/program")
        self.assertEqual(run.wait(), 2, run.text())
        self.assertRegex(run.text(), "node[12]: ddprun: /no/such/program: ")
        self.assertEqual(run.text().count("/no/such/program"), 1, run.text())


class ManyNodes(SshTest):
    """Their addresses are names for one address of this machine, in ssh's own configuration."""
    nodes = 1
    count = 34  # more than are opened at the same time

    def start_slowly(self):
        """Each ssh records its start, waits for a file, and records its connection."""
        ssh = self.folder / "ssh"
        ssh.write_text("#!/bin/sh\necho begun >>log\n"
                       "while [ ! -e connect ]; do sleep 0.05; done\n"
                       f'echo connecting >>log\nexec {shutil.which("ssh")} "$@"\n')
        ssh.chmod(0o755)
        with open(self.folder / "ssh_config", "a") as client:
            client.write("Host 198.51.100.*\n HostName 127.0.0.2\n")
        self.config(PLACE, nodes=[{"name": f"node{i + 1}", "address": f"198.51.100.{i + 1}"}
                                  for i in range(self.count)])
        run = self.start("--master_addr=127.0.0.2", PATH=f"{self.folder}:{os.environ['PATH']}")
        log = self.folder / "log"
        self.wait_until(lambda: log.exists() and len(log.read_text().split()) >= 32)
        return run

    def test_32_connections_are_opened_at_the_same_time(self):
        run = self.start_slowly()
        (self.folder / "connect").touch()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual((self.folder / "log").read_text().split().index("connecting"), 32)
        self.assertEqual(sorted(run.output), sorted(
            f"node{i + 1}: [default0]:rank {i} of {self.count}\n" for i in range(self.count)))

    def test_no_further_connections_are_opened_after_ctrl_c(self):
        run = self.start_slowly()
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 128 + signal.SIGINT, run.text())
        self.assertEqual((self.folder / "log").read_text(), 32 * "begun\n")
        self.assertEqual(run.error, ["ddprun: the run ended with exit code 130: it was asked to "
                                     "stop by SIGINT\n"])


class ThreeNodes(SshTest):
    nodes = 3

    def test_sigterm_stops_all_nodes(self):
        self.config(BUSY)
        run = self.start()
        for rank in range(3):
            run.wait_for(f"]:rank {rank} of 3")
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 128 + signal.SIGTERM, run.text())

    def test_a_node_whose_connection_is_lost_leaves_and_the_others_continue(self):
        self.config(BUSY, rendezvous={"rdzv_backend": "c10d", "nnodes": "1:3",
                                      "rdzv_endpoint": f"127.0.0.2:{self.free_port()}",
                                      "rdzv_conf": {"last_call_timeout": 2}})
        run = self.start()
        for rank in range(3):
            run.wait_for(f"]:rank {rank} of 3")
        # All addresses are on this machine, so the first node to join hosts the rendezvous.
        host = re.search("node([123]): .* this node hosts the rendezvous", run.text()).group(1)
        lost = 2 if host == "3" else 3
        os.kill(self.hosts.client_of(lost - 1), signal.SIGKILL)
        run.wait_for(f"ddprun: node{lost}: lost: the connection by ssh has ended\n")
        run.wait_for("]:rank 0 of 2")
        (self.folder / "go").touch()
        self.assertEqual(run.wait(), 0, run.text())


if __name__ == "__main__":
    run_tests()
