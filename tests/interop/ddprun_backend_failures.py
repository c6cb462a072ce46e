"""The report of a program over the backend ddprun names the rank that failed, not its peers."""
import pathlib

from harness import RunTest, main

FOLDER = pathlib.Path(__file__).parent


class FailuresTest(RunTest):
    def test_error_in_the_backward_pass(self):
        for _ in range(3):  # the ranks end at almost the same time
            run = self.run_ddprun("--nproc_per_node=3", FOLDER / "raises.py")
            self.assertEqual(run.code, 1, run.stderr)
            self.assertRegex(run.stderr, r"Root cause.*\n  rank      : 1 ")
            cause = run.stderr[run.stderr.index("Root cause"):]
            self.assertIn("ValueError: bad batch", cause)


if __name__ == "__main__":
    main()
