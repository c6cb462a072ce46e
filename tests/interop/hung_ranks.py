"""Detection of PyTorch workers that hang."""
import json
import pathlib
import signal

import harness
from free_port import FreePort

PROGRAM = pathlib.Path(__file__).parent / "hang_kinds.py"
TIMEOUT = 8  # seconds; longer than one rank needs to start beside the other
STATES = {"compute_forever": "uses CPU time",
          "wait_for_lock": "does not run, waits in futex",
          "read_fifo": "does not run, waits in openat",
          "hold_interpreter": "does not run, waits in pause",
          "load_blocked_data": "does not run, waits in poll"}


class HungRanks(harness.RunTest):
    def test_the_rank_that_does_not_join_the_collective_is_named_and_all_are_restarted(self):
        run = self.run_ddprun("--nproc_per_node=2", f"--max_restarts={len(STATES)}",
                              f"--hang_timeout={TIMEOUT}", "--events=events", "--stacks=never",
                              PROGRAM, *STATES)
        self.assertEqual(run.code, 0, run.stderr)
        events = [json.loads(line) for line in (run.folder / "events").read_text().splitlines()]
        hangs = [event for event in events if event["event"] == "hang_detected"]
        self.assertEqual(len(hangs), len(STATES), run.stderr)
        for (kind, state), hang in zip(STATES.items(), hangs):
            with self.subTest(kind=kind):
                self.assertEqual([rank["rank"] for rank in hang["ranks"]], [1])
                self.assertTrue(hang["ranks"][0]["doing"].startswith(state), hang)
                self.assertEqual(hang["action"], "restart")

    def test_the_only_rank_of_a_node_is_named_unless_all_ranks_wait_for_each_other(self):
        port = FreePort()
        self.addCleanup(port.close)
        runs = [self.start("--nnodes=2", "--security=open", f"--node_rank={rank}",
                           "--master_addr=127.0.0.1", f"--master_port={port.number}",
                           "--nproc_per_node=1",
                           "--max_restarts=3", f"--hang_timeout={TIMEOUT}", "--stacks=never",
                           PROGRAM, "compute_forever", "read_fifo", "receive",
                           environment={"GLOO_SOCKET_IFNAME": "lo"})
                for rank in (0, 1)]
        for run in runs:
            self.finish(run)
            self.assertEqual(run.code, 0, run.stderr)
            self.assertRegex(run.stderr, r"hung: uses CPU time on node \S+; restart 1 of 3\n")
            self.assertRegex(run.stderr, r"hung: does not run, waits in openat\b.*; restart 2 of")
            self.assertRegex(run.stderr, r"hung: waits in a collective, like all.*; restart 3 of")
        for state in STATES["compute_forever"], STATES["read_fifo"]:
            self.assertRegex(runs[1].stderr, rf"rank 1 hangs \(no progress for \S+ s\): {state}")

    def test_stacks_of_the_rank_that_waits_do_not_end_the_hang_of_another_node(self):
        port = FreePort()
        self.addCleanup(port.close)
        runs = [self.start("--nnodes=2", "--security=open", f"--node_rank={rank}",
                           "--master_addr=127.0.0.1", f"--master_port={port.number}",
                           "--nproc_per_node=1", "--events=events", f"--hang_timeout={TIMEOUT}",
                           "--on_hang=report", PROGRAM, "compute_until_released",
                           environment={"GLOO_SOCKET_IFNAME": "lo"})
                for rank in (0, 1)]
        runs[0].wait_for_message("rank 1 on node ")
        for count in range(1, 13):
            runs[0].process.send_signal(signal.SIGRTMIN)
            self.assertTrue(harness.wait_until(
                lambda: (runs[0].folder / "events").read_text().count("by SIGRTMIN") >= count))
        self.assertNotIn("hang_ended", (runs[1].folder / "events").read_text())
        (runs[1].folder / "released").touch()
        for run in runs:
            self.finish(run)
            self.assertEqual(run.code, 0, run.stderr)
            self.assertEqual(run.stderr.count(" hangs (no progress for "), 1, run.stderr)


if __name__ == "__main__":
    harness.main()
