"""Detection of PyTorch workers that hang."""
import json
import pathlib

import harness

PROGRAM = pathlib.Path(__file__).parent / "hang_kinds.py"
TIMEOUT = 8  # seconds; longer than one rank needs to start beside the other
STATES = {"compute_forever": "runs",
          "wait_for_lock": "does not run, waits in futex, called by ",
          "read_fifo": "does not run, waits in openat, called by ",
          "hold_interpreter": "does not run, waits in pause, called by ",
          "load_blocked_data": "does not run, waits in poll, called by "}


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


if __name__ == "__main__":
    harness.main()
