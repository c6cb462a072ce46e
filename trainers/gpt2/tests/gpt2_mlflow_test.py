"""gpt2 logs to a real MLflow server.

Usage: gpt2_mlflow_test.py DDPRUN, with the interpreter of scripts/test_python
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
from mlflow import MlflowClient

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[2] / "tests" / "support"))
from free_port import FreePort
from mlflow_server import MlflowServer
from orphans import adopt_orphans, end_children

DDPRUN = sys.argv.pop(1)
GPT2 = pathlib.Path(DDPRUN).with_name("gpt2")


class Gpt2MlflowTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ddprun-gpt2-mlflow-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "server").mkdir()
        with FreePort() as port:
            self.server = MlflowServer(self.folder / "server", port.number)
        self.addCleanup(self.server.kill)
        self.server.start()

    def test_gpt2_logs_each_step(self):
        text, tokens, metrics = (self.folder / name for name in ("text", "tokens", "metrics"))
        text.write_text("to be or not to be, that is the question. " * 400)
        subprocess.run([HERE.parent / "prepare_text", "--test_fraction=0.1", text, tokens],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run([DDPRUN, "--nproc_per_node=2", GPT2, f"--data={tokens}", "--layers=1",
                        "--heads=1", "--channels=16", "--context=32", "--steps=7",
                        f"--metrics={metrics}"], check=True, timeout=60,
                       env=os.environ | {"MLFLOW_EXPERIMENT_NAME": "gpt2",
                                         "MLFLOW_TRACKING_URI": self.server.uri})
        client = MlflowClient(self.server.uri)
        experiment = client.get_experiment_by_name("gpt2")
        run, = client.search_runs([experiment.experiment_id])
        self.assertEqual(run.data.params["channels"], "16")

        def history(name):
            points = client.get_metric_history(run.info.run_id, name)
            return sorted((point.step, point.value) for point in points)

        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        self.assertEqual(history("Loss/train"), [(line["step"], line["loss"])
                                                 for line in lines if line["event"] == "step"])
        self.assertEqual(history("Loss/test")[0][0], 7)


if __name__ == "__main__":
    adopt_orphans()
    try:
        unittest.main()
    finally:
        left = end_children(5)
        assert not left, left
