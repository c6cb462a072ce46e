"""Starts ddprun from a Python program, such as a notebook or a test."""

import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Callable, List, Mapping, Optional, Sequence


class LaunchError(RuntimeError):
    """A run of ddprun has failed.

    exit_code: that of ddprun, or the negative signal that has ended it.
    """

    def __init__(self, exit_code: int, reason: str):
        super().__init__(f"ddprun has ended with exit code {exit_code}{reason}")
        self.exit_code = exit_code


def _program() -> str:
    """Return the path of ddprun, preferably that of this interpreter's environment."""
    folders = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    path = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    program = shutil.which("ddprun", path=path)
    if program is None:
        raise FileNotFoundError("ddprun: not found beside the interpreter or in PATH")
    return program


def run(arguments: Sequence[str], *, env: Optional[Mapping[str, str]] = None) -> None:
    """Run `ddprun` with these arguments, and wait for its end.

    The workers' interpreter is this one, unless env has PYTHON_EXEC. Output goes to the standard
    streams of this process. An exception such as KeyboardInterrupt stops the workers first.

    env: environment of ddprun; None for that of this process.
    Raises LaunchError if ddprun does not exit with 0, and FileNotFoundError if there is no ddprun.
    """
    variables = dict(os.environ if env is None else env)
    variables.setdefault("PYTHON_EXEC", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    process = subprocess.Popen([_program(), *map(str, arguments)], env=variables)
    try:
        code = process.wait()
    except BaseException:
        # Not SIGINT: a terminal and Jupyter send it to ddprun, too, and a second one would kill the
        # workers. ddprun limits the time of the stop.
        process.terminate()
        process.wait()
        raise
    if code != 0:
        raise LaunchError(code, "")


def launch(
    function: Callable[..., Any],
    *arguments: Any,
    nproc_per_node: int = 1,
    options: Sequence[str] = (),
) -> List[Any]:
    """Call function(*arguments) in worker processes on this machine; return the results by rank.

    Function, arguments and results are pickled. A function of the main program or of a notebook, or
    a lambda, needs the package cloudpickle; with pickle alone, it must be in a module.

    nproc_per_node: number of workers.
    options: further options of ddprun, such as "--max_restarts=3" or "--preload=torch".
    Raises LaunchError, with the error of the root cause, if the run fails.
    """
    with tempfile.TemporaryDirectory(prefix="ddprun_launch_") as folder:
        with open(os.path.join(folder, "call"), "wb") as file:
            pickle.dump(sys.path, file)
            file.write(_pickled((function, arguments)))
        error_file = os.path.join(folder, "error")
        variables = dict(os.environ, TORCHELASTIC_ERROR_FILE=error_file)
        workers = f"--nproc_per_node={nproc_per_node}"
        try:
            run([workers, *options, "-m", "ddprun._call", folder], env=variables)
        except LaunchError as error:
            raise LaunchError(error.exit_code, _root_cause(error_file)) from None
        results = []
        for rank in range(nproc_per_node):
            with open(os.path.join(folder, f"result_{rank}"), "rb") as file:
                results.append(pickle.load(file))
        return results


def _pickled(call: Any) -> bytes:
    try:
        import cloudpickle  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        function = call[0]
        if getattr(function, "__module__", None) == "__main__":
            raise TypeError(
                f"launch: {function!r} is in the main program, which workers do not import; "
                "pip install cloudpickle, or define it in a module"
            ) from None
        return pickle.dumps(call)
    return bytes(cloudpickle.dumps(call))


def _root_cause(error_file: str) -> str:
    import json

    try:
        with open(error_file, encoding="utf-8") as file:
            message = json.load(file)["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return ": " + str(message.get("message", "") if isinstance(message, dict) else message)
