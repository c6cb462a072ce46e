"""trainer reports to a real MLflow server and to TensorBoard, also while the server is
killed, stopped or refuses requests.

Usage: mlflow_test.py DDPRUN, with the interpreter of scripts/test_python
"""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from free_port import FreePort
from mlflow_server import Forwarder, MlflowServer, await_true
from orphans import adopt_orphans, end_children

DDPRUN = sys.argv.pop(1)
TRAINER = pathlib.Path(DDPRUN).with_name("trainer")
EVERY = 5  # steps between points
TIME_LIMIT = 60
# Longer than any test waits.
ENDLESS = ["--dataset=random", "--epochs=100000", "--lr_schedule=constant"]


class Training:
    """A run of ddprun whose output is read while it runs."""

    def __init__(self, program, options, launcher=(), environment=None):
        self.output = ""
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("MLFLOW_TRACKING")}
        self.process = subprocess.Popen(
            [DDPRUN, "--nproc_per_node=2", *launcher, program, *options], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=inherited | (environment or {}))

    def read_some(self, deadline):
        ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
        text = os.read(self.process.stdout.fileno(), 1 << 16) if ready else None
        if text is None:
            raise AssertionError("time is over:\n" + self.output)
        self.output += text.decode(errors="replace")
        return len(text) > 0

    def read_until(self, text):
        deadline = time.monotonic() + TIME_LIMIT
        while text not in self.output:
            if not self.read_some(deadline):
                raise AssertionError(f"ended without '{text}':\n" + self.output)

    def end(self):
        """Reads to the end; returns the exit code."""
        deadline = time.monotonic() + TIME_LIMIT
        while self.read_some(deadline):
            pass
        self.process.stdout.close()
        return self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.end()

    def kill(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def result(self):
        """Step and hash of the final parameters."""
        return re.search(r"step (\d+) after .* parameters (\w+)", self.output).groups()


class MlflowTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="ddprun-mlflow-")
        cls.addClassCleanup(scratch.cleanup)
        with FreePort() as port:
            cls.server = MlflowServer(scratch.name, port.number)
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()
        cls.client = MlflowClient(cls.server.uri)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ddprun-mlflow-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.metrics = self.folder / "metrics"
        self.experiment = self.id()

    def start(self, *arguments):
        training = Training(*arguments)
        self.addCleanup(training.kill)
        return training

    def train(self, *options, launcher=(), uri=None):
        own = [f"--metrics={self.metrics}", f"--mlflow={uri or self.server.uri}",
               f"--track_every={EVERY}"]
        return self.start(TRAINER, [*own, *options], launcher,
                          {"MLFLOW_EXPERIMENT_NAME": self.experiment})

    def train_with_checkpoints(self, *options, **others):
        return self.train(f"--checkpoint_dir={self.folder / 'checkpoints'}",
                          "--checkpoint_every=20", *options, **others)

    def runs(self):
        experiment = self.client.get_experiment_by_name(self.experiment)
        return self.client.search_runs([experiment.experiment_id]) if experiment else []

    def the_run(self):
        runs = self.runs()
        self.assertEqual(len(runs), 1, runs)
        return runs[0]

    def history(self, name):
        """Step and value of each point, in the order of the steps."""
        points = self.client.get_metric_history(self.the_run().info.run_id, name)
        return sorted((point.step, point.value) for point in points)

    def await_points(self, count=1):
        def has_points():
            runs = self.runs()
            return runs and len(self.client.get_metric_history(runs[0].info.run_id,
                                                               "Loss/step")) >= count
        await_true(has_points, "the server has points", TIME_LIMIT)

    def lines(self, event):
        lines = [json.loads(line) for line in self.metrics.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def expected_points(self):
        """Repeated steps have the same result."""
        losses = {line["step"]: line["loss"] for line in self.lines("step")}
        return sorted(point for point in losses.items() if point[0] % EVERY == 0)

    def check_that_nothing_is_lost(self):
        self.assertEqual(self.history("Loss/step"), self.expected_points())
        tests = {round(line["test_loss"], 9) for line in self.lines("epoch")}
        self.assertEqual({round(value, 9) for _, value in self.history("Loss/test")}, tests)

    def check_result(self, training):
        """Checks that the result equals that of a training without a server."""
        step, parameters = training.result()
        plain = self.start(TRAINER, [*ENDLESS, f"--max_steps={step}"])
        self.assertEqual(plain.end(), 0, plain.output)
        self.assertEqual(plain.result(), (step, parameters))
        self.assertNotIn("MLflow", plain.output)

    def test_a_run_has_parameters_metrics_tags_and_a_status(self):
        training = self.train_with_checkpoints("--dataset=random", "--epochs=2",
                                               f"--tensorboard={self.folder / 'events'}",
                                               launcher=["--rdzv_id=job7"])
        self.assertEqual(training.end(), 0, training.output)
        run = self.the_run()
        self.assertEqual(run.info.status, "FINISHED")
        self.assertEqual(run.info.run_name, "job7")
        self.assertEqual(run.data.params["lr"], "0.05")
        self.assertEqual(run.data.params["model"], "mlp")
        tags = {name.partition("ddprun.")[2]: value for name, value in run.data.tags.items()}
        del tags["tracking_id"], tags[""]
        self.assertEqual(tags, {"run_id": "job7", "attempt": "0", "nodes": "1", "world_size": "2",
                                "checkpoint_dir": str(self.folder / "checkpoints")})
        self.check_that_nothing_is_lost()
        events = EventAccumulator(str(self.folder / "events"))
        events.Reload()
        for name in ("Loss/step", "Loss/test", "Accuracy/test"):
            written = [(point.step, point.value) for point in events.Scalars(name)]
            for (step, value), (other_step, other) in zip(written, self.history(name), strict=True):
                self.assertEqual(step, other_step)
                self.assertAlmostEqual(value, other, 5)
        self.assertIn("| lr | 0.05 |",
                      events.Tensors("settings")[0].tensor_proto.string_val[0].decode())

    def test_a_resumed_training_sends_the_points_of_an_outage(self):
        training = self.train_with_checkpoints(*ENDLESS)
        self.await_points()
        self.server.kill()
        training.read_until("points are kept until the server accepts them")
        self.assertEqual(training.stop(), 143, training.output)
        self.assertRegex(training.output,
                         r"\d+ points and the status of the run were not sent within 1 s; "
                         "a training that resumes from the checkpoint sends them")
        self.check_result(training)
        self.server.start()
        more = int(training.result()[0]) + 30
        resumed = self.train_with_checkpoints(*ENDLESS, f"--max_steps={more}")
        self.assertEqual(resumed.end(), 0, resumed.output)
        self.check_that_nothing_is_lost()
        self.assertEqual(self.the_run().info.status, "FINISHED")

    def test_a_server_that_was_stopped_gets_all_points_when_it_continues(self):
        training = self.train_with_checkpoints(*ENDLESS)
        self.await_points()
        self.server.signal(signal.SIGSTOP)
        try:
            training.read_until("no answer after")
        finally:
            self.server.signal(signal.SIGCONT)
        training.read_until("the server responds again")
        self.assertEqual(training.stop(), 143, training.output)
        self.check_that_nothing_is_lost()
        self.assertEqual(self.the_run().info.status, "KILLED")

    def test_a_server_that_responded_with_errors_gets_all_points_later(self):
        forwarder = Forwarder(self.server.uri)
        self.addCleanup(forwarder.close)
        forwarder.answer = (500, b'{"error_code": "INTERNAL_ERROR", "message": "the disk is full"}')
        training = self.train_with_checkpoints(*ENDLESS, uri=forwarder.uri)
        training.read_until("HTTP status 500: the disk is full; the training continues")
        forwarder.answer = (200, b"<html>not me</html>")
        forwarder.refused.clear()
        self.assertTrue(forwarder.refused.wait(TIME_LIMIT))
        forwarder.answer = None
        training.read_until("the server responds again")
        self.assertEqual(training.stop(), 143, training.output)
        self.check_that_nothing_is_lost()
        self.check_result(training)

    def test_a_training_continues_when_its_run_is_deleted(self):
        training = self.train_with_checkpoints(*ENDLESS)
        self.await_points()
        self.client.delete_run(self.the_run().info.run_id)
        training.read_until("the server refuses metric ")
        self.assertEqual(training.stop(), 143, training.output)
        self.assertRegex(training.output, r"HTTP status 400: .* must be in the 'active' state.*; "
                                          r"its points are left out, \d+ so far")
        self.assertRegex(training.output, r"the server has refused \d+ points in total")
        self.assertEqual(training.output.count("the server refuses"), 1, training.output)
        more = int(training.result()[0]) + 30
        resumed = self.train_with_checkpoints(*ENDLESS, f"--max_steps={more}")
        self.assertEqual(resumed.end(), 0, resumed.output)
        self.assertIn("the run of the earlier training was not found; a new one has the points "
                      "from here on", resumed.output)
        self.assertEqual(self.the_run().info.status, "FINISHED")

    def test_a_refused_metric_is_left_out_and_the_others_arrive(self):
        forwarder = Forwarder(self.server.uri)
        self.addCleanup(forwarder.close)
        forwarder.rewrite = (b"Time/exposed_seconds", b"Time (exposed)")
        training = self.train("--dataset=random", "--epochs=60", uri=forwarder.uri)
        self.assertEqual(training.end(), 0, training.output)
        self.assertIn("the server refuses metric 'Time/exposed_seconds': HTTP status 400: "
                      "Invalid value \"Time (exposed)\" for parameter ", training.output)
        self.check_that_nothing_is_lost()
        refused = len(self.expected_points())
        self.assertIn(f"the server has refused {refused} points in total", training.output)
        self.assertEqual(self.the_run().info.status, "FINISHED")

    def test_a_training_continues_without_a_run_if_the_server_refuses_it(self):
        self.client.delete_experiment(self.client.create_experiment(self.experiment))
        training = self.train(*ENDLESS, "--max_steps=100")
        self.assertEqual(training.end(), 0, training.output)
        self.assertRegex(training.output, r"MLflow at http://.*: the server refuses a run: "
                                          r"HTTP status 400: .*'active' state.*; "
                                          r"the training continues without MLflow")
        self.assertEqual(training.output.count("MLflow at"), 1, training.output)
        self.check_result(training)

    def test_restarts_and_resumed_trainings_continue_the_same_run_at_any_address(self):
        training = self.train_with_checkpoints(*ENDLESS, launcher=["--max_restarts=1"])
        self.await_points(20)
        os.kill(self.rank_0_of(training), signal.SIGKILL)
        training.read_until("resumed after step")
        self.await_points(len(self.expected_points()) + 5)
        self.assertEqual(self.the_run().data.tags["ddprun.attempt"], "1")
        self.assertEqual(training.stop(), 143, training.output)
        self.assertEqual(self.the_run().info.status, "KILLED")
        more = int(training.result()[0]) + 30
        forwarder = Forwarder(self.server.uri)
        self.addCleanup(forwarder.close)
        resumed = self.train_with_checkpoints(*ENDLESS, f"--max_steps={more}", uri=forwarder.uri)
        self.assertEqual(resumed.end(), 0, resumed.output)
        self.check_that_nothing_is_lost()
        self.assertEqual(self.the_run().info.status, "FINISHED")

    def test_a_restart_without_checkpoints_continues_the_same_run(self):
        events = self.folder / "events"
        training = self.train("--dataset=random", "--epochs=60", f"--tensorboard={events}",
                              launcher=["--max_restarts=1"])
        self.await_points()
        os.kill(self.rank_0_of(training), signal.SIGKILL)
        self.assertEqual(training.end(), 0, training.output)
        self.assertEqual(self.the_run().info.status, "FINISHED")
        self.assertEqual(self.history("Loss/step"), self.expected_points())
        shown = EventAccumulator(str(events)).Reload()
        self.assertEqual([point.step for point in shown.Scalars("Loss/step")],
                         [step for step, _ in self.expected_points()])

    def test_a_failure_is_reported_to_the_launcher_and_to_the_server(self):
        self.metrics = "/dev/full"
        for workers in (2, 1):
            training = self.train("--dataset=random", launcher=[f"--nproc_per_node={workers}"])
            self.assertEqual(training.end(), 1, training.output)
            self.assertIn("rank 0", training.output)
            self.assertIn("writing /dev/full: No space left on device", training.output)
        statuses = [run.info.status for run in self.runs()]
        # With several workers, the launcher may stop this one before it has reported its failure.
        self.assertEqual(statuses[0], "FAILED", statuses)

    def test_a_bad_address_is_refused_before_the_training(self):
        training = self.train(uri="sqlite:///mlflow.db")
        self.assertNotEqual(training.end(), 0)
        self.assertIn("--mlflow: 'sqlite:///mlflow.db' is not the address of a tracking server; "
                      "give http://HOST:PORT", training.output)
        self.assertNotIn("epoch", training.output)

    @staticmethod
    def rank_0_of(training):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent != training.process.pid:
                    continue
                if b"RANK=0" in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
            except (FileNotFoundError, ProcessLookupError):
                pass
        raise AssertionError("there is no rank 0:\n" + training.output)


if __name__ == "__main__":
    adopt_orphans()
    try:
        unittest.main()
    finally:
        left = end_children(5)
        assert not left, left
