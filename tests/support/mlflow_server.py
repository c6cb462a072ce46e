"""A real MLflow tracking server for tests and benchmarks, in its own folder."""
import http.server
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

LOOK_AGAIN = 0.02  # seconds
START_LIMIT = 120


def await_true(condition, what, limit=60):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit} s: {what}")
        time.sleep(LOOK_AGAIN)


class MlflowServer:
    """Needs an interpreter with MLflow. Keeps its data when it is killed and started again."""

    def __init__(self, folder, port):
        self.folder = pathlib.Path(folder)
        self.uri = f"http://127.0.0.1:{port}"
        self.port = port
        self.process = None

    def start(self):
        environment = dict(os.environ, MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true",
                           MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", HOME=str(self.folder))
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1",
                   "--port", str(self.port), "--workers", "1",
                   "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}",
                   "--default-artifact-root", str(self.folder / "artifacts")]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log,
                                            stderr=log, start_new_session=True)
        await_true(self.is_answering, "the MLflow server answers", START_LIMIT)

    def is_answering(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "server.log").read_text())
        try:
            with urllib.request.urlopen(self.uri + "/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def signal(self, number):
        """Sends the signal to all of its processes."""
        os.killpg(self.process.pid, number)

    def kill(self):
        if self.process is None:
            return
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.process = None


class Forwarder:
    """An HTTP server that forwards requests to another one, or responds to all of them with
    `answer`, a status and a body."""

    def __init__(self, target):
        self.answer = None
        self.rewrite = (b"", b"")  # what to replace in the bodies of requests, and by what
        self.refused = threading.Event()  # set when a request has got `answer`
        forwarder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, text = forwarder.answer or self.forward(body)
                if forwarder.answer:
                    forwarder.refused.set()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def forward(self, body):
                body = body.replace(*forwarder.rewrite)
                request = urllib.request.Request(
                    target + self.path, data=body if self.command == "POST" else None,
                    headers={"Content-Type": "application/json"})
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        return answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    return error.code, error.read()

            do_GET = do_POST = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
