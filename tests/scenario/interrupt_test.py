"""Ctrl-C on terminals of 60 columns, in every phase of a run of two nodes.

Usage: interrupt_test.py DDPRUN
"""
import pathlib
import signal
import socket
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from orphans import adopt_orphans, end_children
from terminal import Terminal

DDPRUN = sys.argv.pop(1)
COLUMNS = 60

BUSY = "echo at work; while [ ! -e go ]; do sleep 0.02; done"
INTERRUPTED = 128 + signal.SIGINT


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        return probe.getsockname()[1]


class InterruptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.port = free_port()
        self.addCleanup(end_children)

    def start(self, number, script=BUSY, options=(), endpoint=None):
        """The node at 127.0.0.`number`; the second hosts the rendezvous."""
        node = Terminal(
            ["/bin/sh", "-c", f'cd {self.folder}; exec "$@"', "sh", DDPRUN, "--nnodes=1:2",
             "--rdzv_backend=c10d", "--security=open", f"--local_addr=127.0.0.{number}",
             f"--rdzv_endpoint={endpoint or f'127.0.0.2:{self.port}'}",
             f"--rdzv_conf=last_call_timeout=1000,is_host={int(number == 2)}", *options,
             "--no_python", "/bin/sh", "-c", script], COLUMNS)
        self.addCleanup(node.close)
        return node

    def text(self, node):
        """Its lines without the line breaks of the terminal."""
        return node.bytes.decode(errors="replace").replace("\r\n", "\n")

    def wait_for(self, node, text):
        node.read_until(lambda: text in self.text(node), text)

    def pair(self, script=BUSY, options=()):
        nodes = [self.start(2, script, options), self.start(3, script, options)]
        for node in nodes:
            self.wait_for(node, " of 2, rank ")
        return nodes

    def interrupt(self, node, code=INTERRUPTED):
        node.send("\x03")
        status = node.read_to_end()
        self.assertEqual(code, status >> 8 if status & 127 == 0 else -(status & 127),
                         self.text(node))
        self.assertNotIn("^C", self.text(node).splitlines()[-1])

    def let_go(self, node, code=0):
        (self.folder / "go").touch()
        self.assertEqual(code, node.read_to_end() >> 8, self.text(node))

    def test_ctrl_c_during_the_lookup_of_the_host(self):
        node = self.start(2, endpoint="no-such-host.invalid:1")
        self.wait_for(node, "trying again")
        self.interrupt(node)

    def test_ctrl_c_while_connections_are_refused(self):
        node = self.start(3)
        self.wait_for(node, "trying again")
        self.interrupt(node)
        self.assertIn("left the run", self.text(node))

    def test_ctrl_c_on_the_host_while_it_waits_for_nodes(self):
        node = self.start(2, options=["--nnodes=2"])
        self.wait_for(node, "this node hosts the rendezvous")
        self.interrupt(node)

    def test_ctrl_c_on_a_node_that_waits_with_the_host(self):
        host = self.start(2, options=["--nnodes=3"])
        self.wait_for(host, "this node hosts the rendezvous")
        node = self.start(3, options=["--nnodes=3"])
        self.wait_for(node, "meeting the other nodes")
        self.interrupt(node)
        self.interrupt(host)

    def test_ctrl_c_while_workers_run(self):
        host, node = self.pair()
        self.wait_for(node, "at work")
        self.interrupt(node)
        self.assertIn("left the run after 1 attempt", self.text(node))
        self.wait_for(host, "127.0.0.3 has left")
        self.wait_for(host, "node 0 of 1")
        self.interrupt(host)

    def test_ctrl_c_on_the_host_while_workers_run(self):
        host, node = self.pair()
        self.interrupt(host)
        self.assertEqual(INTERRUPTED, node.read_to_end() >> 8)
        self.assertIn("127.0.0.2, which hosts the rendezvous, was asked to stop by SIGINT",
                      self.text(node))

    def test_third_ctrl_c_ends_a_host_before_the_other_nodes(self):
        script = "trap '' INT TERM; " + BUSY
        host, node = self.start(2, script), self.start(3, script, ["--shutdown_timeout=1"])
        for each in (host, node):
            self.wait_for(each, "at work")
        for text in ("send it again to kill them at once",
                     "send the signal again to end before them", "left the run"):
            host.send("\x03")
            self.wait_for(host, text)
        self.assertEqual(INTERRUPTED, node.read_to_end() >> 8)
        self.assertIn("127.0.0.2, which hosts the rendezvous, was asked to stop by SIGINT",
                      self.text(node))
        self.assertNotIn("trying again", self.text(node))

    def test_second_ctrl_c_while_workers_stop(self):
        host, node = self.pair("trap 'echo ignored' INT TERM; " + BUSY)
        self.wait_for(node, "at work")
        node.send("\x03")
        self.wait_for(node, "ignored")
        self.interrupt(node)
        self.wait_for(host, "127.0.0.3 has left")
        self.let_go(host)

    def test_ctrl_c_on_a_successful_node_that_waits_for_others(self):
        host, node = self.pair("[ $RANK = 1 ] && exit; " + BUSY)
        self.wait_for(host, "at work")
        node.send("\x03")
        node.read_to_end()
        self.let_go(host)

    def test_ctrl_c_on_a_spare(self):
        host, node = self.pair()
        spare = self.start(4)
        self.wait_for(spare, "waits to replace another")
        self.interrupt(spare)
        (self.folder / "go").touch()
        for each in (host, node):
            self.assertEqual(0, each.read_to_end() >> 8, self.text(each))

    def test_failure_report_fits_the_terminal(self):
        host, node = self.pair("echo why >&2; sleep 0.1; exit 3")
        for each in (host, node):
            self.assertEqual(1, each.read_to_end() >> 8, self.text(each))
            report = self.text(each)
            report = report[report.index("=" * COLUMNS):]
            self.assertLessEqual(max(map(len, report.splitlines())), COLUMNS, report)


if __name__ == "__main__":
    adopt_orphans()
    unittest.main()
