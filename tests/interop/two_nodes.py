"""DDP on two nodes, simulated by agents at different loopback addresses."""
import pathlib
import secrets
import signal
import tempfile

import harness
from free_port import FreePort

TRAINER = pathlib.Path(__file__).parent / "elastic.py"
HOST, OTHER = "127.0.0.1", "127.0.0.2"


class TwoNodes(harness.RunTest):
    def setUp(self):
        super().setUp()
        if harness.lacks_libuv():
            self.skipTest("this PyTorch has no libuv, which process groups of several nodes need")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.secret = pathlib.Path(folder.name) / "secret"
        self.secret.touch(0o600)
        self.secret.write_text(secrets.token_hex())

    def start_node(self, address, port, *options_and_program):
        is_host = int(address == HOST)
        return self.start(
            "--nnodes=1:2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_id=two_nodes",
            f"--rdzv_endpoint={HOST}:{port}", f"--local_addr={address}",
            f"--rdzv_conf=is_host={is_host}", f"--secret_file={self.secret}", *options_and_program,
            environment={"GLOO_SOCKET_IFNAME": "lo"})

    def test_training_survives_the_death_of_a_worker_and_of_a_node(self):
        port = FreePort()
        self.addCleanup(port.close)
        host = self.start_node(HOST, port.number, "--max_restarts=1", TRAINER, "checkpoint.pt")
        other = self.start_node(OTHER, port.number, "--max_restarts=1", TRAINER,
                                host.folder / "checkpoint.pt")
        for run in host, other:
            run.wait_for("restart 1: 2 ranks train")
        other.process.send_signal(signal.SIGKILL)
        self.assertEqual(other.process.wait(harness.TIME_LIMIT), -signal.SIGKILL)
        host.process.wait(harness.TIME_LIMIT)
        harness.wait_for_orphans()  # the guardian of the agent that was killed, above all
        for run in host, other:
            self.finish(run)
        self.assertEqual(host.code, 0, host.stdout + host.stderr)
        self.assertIn("passed", host.stdout)
        self.assertIn(f"{OTHER} is lost", host.stderr)


if __name__ == "__main__":
    harness.main()
