"""A torchrun of PyTorch and a ddprun that should form one run: both report the mismatch."""
import pathlib
import secrets
import socket
import subprocess
import tempfile

import harness
from free_port import FreePort

ADDRESS = "127.0.0.1"
ADVICE = "torchrun and ddprun cannot share a run; start every node with ddprun"


def accepts(port):
    with socket.socket() as client:
        return client.connect_ex((ADDRESS, port)) == 0


class RealTorchrun(harness.RunTest):
    def setUp(self):
        super().setUp()
        if harness.lacks_libuv():
            self.skipTest("this PyTorch has no libuv, without which its torchrun fails")
        port = FreePort()
        self.addCleanup(port.close)
        self.port = port.number
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start_torchrun(self, *options):
        # Debian's torchrun (1.13 on Python 3.11) starts only with -r and -t.
        process = subprocess.Popen(
            [harness.INTERPRETER, "-m", "torch.distributed.run", "-r1", "-t1", "--nnodes=2",
             "--no_python", *options, "/bin/true"], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_node(self, *options):
        return self.start("--nnodes=2", *options, "--no_python", "/bin/true")

    def end(self, node, torchrun):
        """Returns the output of ddprun."""
        torchrun.kill()
        torchrun.wait()
        node.process.terminate()
        return self.finish(node).stderr

    def c10d(self, is_host):
        return ["--rdzv_backend=c10d", "--rdzv_id=one", f"--rdzv_endpoint={ADDRESS}:{self.port}",
                f"--rdzv_conf=is_host={is_host}"]

    def static(self, rank):
        return [f"--node_rank={rank}", f"--master_addr={ADDRESS}", f"--master_port={self.port}"]

    def start_host(self, *options):
        node = self.start_node(*options)
        node.wait_for_message("this node hosts the rendezvous")
        return node

    def test_host_recognises_torchrun_that_joins_by_c10d(self):
        host = self.start_host("--security=open", *self.c10d(1))
        torchrun = self.start_torchrun(*self.c10d(0))
        host.wait_for_message(ADVICE)
        self.assertNotEqual(torchrun.wait(harness.TIME_LIMIT), 0)
        self.assertIn(ADVICE, self.end(host, torchrun))

    def test_host_recognises_torchrun_that_joins_by_static(self):
        host = self.start_host("--security=open", *self.static(0))
        torchrun = self.start_torchrun(*self.static(1))
        host.wait_for_message(ADVICE)
        self.assertNotEqual(torchrun.wait(harness.TIME_LIMIT), 0)
        self.assertIn(ADVICE, self.end(host, torchrun))

    def test_host_with_secret_recognises_torchrun(self):
        secret = self.folder / "secret"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex())
        host = self.start_host(f"--secret_file={secret}", *self.c10d(1))
        torchrun = self.start_torchrun(*self.c10d(0))
        host.wait_for_message(ADVICE)
        self.assertIn("is a client of PyTorch's store; " + ADVICE, self.end(host, torchrun))

    def test_node_recognises_c10d_rendezvous_of_torchrun(self):
        self.assertIn("it is a torchrun; " + ADVICE, self.words_beside(self.c10d(1), self.c10d(0)))

    def test_node_names_torchrun_as_possible_cause_if_its_store_is_empty(self):
        self.assertIn("such as torchrun", self.words_beside(self.static(0), self.static(1)))

    def words_beside(self, options_of_torchrun, options_of_node):
        torchrun = self.start_torchrun(*options_of_torchrun)
        self.assertTrue(harness.wait_until(lambda: accepts(self.port)))
        node = self.start_node("--security=open", *options_of_node)
        node.wait_for_message("torchrun")
        return self.end(node, torchrun)


if __name__ == "__main__":
    harness.main()
