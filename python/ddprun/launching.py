"""Starts ddprun from a Python program, such as a notebook or a test."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Callable, List, Mapping, Optional, Sequence, Union


class LaunchError(RuntimeError):
    """A run of ddprun has failed.

    exit_code: that of ddprun, or minus the number of the signal that has ended it.
    """

    def __init__(self, exit_code: int, reason: str = ""):
        super().__init__(exit_code, reason)
        self.exit_code, self.reason = exit_code, reason

    def __str__(self) -> str:
        return f"ddprun: exit code {self.exit_code}" + (f": {self.reason}" if self.reason else "")


def _program() -> str:
    """Return the path of ddprun, preferably that of this interpreter's environment."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    if sys.executable:
        folders.insert(0, os.path.dirname(sys.executable))
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
    _check_words("run: arguments", arguments)
    variables = dict(os.environ if env is None else env)
    variables.setdefault("PYTHON_EXEC", sys.executable)
    variables["DDPRUN_PARENT"] = str(os.getpid())
    sys.stdout.flush()
    sys.stderr.flush()
    process = subprocess.Popen([_program(), *arguments], env=variables)
    try:
        code = process.wait()
    except BaseException:
        _stop(process)
        raise
    if code != 0:
        raise LaunchError(code)


def _check_words(name: str, words: Sequence[str]) -> None:
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name}: a list of strings is needed, not {words!r}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    # Not SIGINT: a terminal and Jupyter send it to ddprun, too, and a second one would kill the
    # workers. ddprun limits the time of the stop.
    process.terminate()
    while True:
        try:
            process.wait()
            return
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)


def launch(
    function: Callable[..., Any],
    *arguments: Any,
    nproc_per_node: Union[int, str] = 1,
    options: Sequence[str] = (),
) -> List[Any]:
    """Call function(*arguments) in worker processes on this machine; return the results by rank.

    Function, arguments and results are pickled. Functions and classes of the main program or of a
    notebook, and lambdas, need the package cloudpickle; with pickle alone, they must be in modules.

    nproc_per_node: number of workers, or "gpu", "cpu" or "auto" as for ddprun.
    options: further options of ddprun, such as "--max_restarts=3" or "--preload=torch".
    Raises LaunchError, with the error of the root cause, if the run fails, or if a worker has ended
    before the function returned.
    """
    _check_words("launch: options", options)
    with tempfile.TemporaryDirectory(prefix="ddprun_launch_") as folder:
        with open(os.path.join(folder, "call"), "wb") as file:
            pickle.dump(sys.path, file)
            file.write(_pickled((function, arguments)))
        error_file = os.path.join(folder, "error")
        variables = dict(os.environ, TORCHELASTIC_ERROR_FILE=error_file)
        workers = f"--nproc_per_node={nproc_per_node}"
        variables.update(PET_NNODES="1")
        try:
            run([workers, *options, _copy_of_call(folder, function), folder], env=variables)
        except LaunchError as error:
            raise LaunchError(error.exit_code, _root_cause(error_file)) from None
        return _results(folder)


def _results(folder: str) -> List[Any]:
    results: List[Any] = []
    size = 1
    while len(results) < size:
        rank = len(results)
        try:
            with open(os.path.join(folder, f"result_{rank}"), "rb") as file:
                size = pickle.load(file)
                results.append(pickle.load(file))
        except FileNotFoundError:
            reason = f"rank {rank} has ended before the function returned"
            raise LaunchError(0, reason) from None
    return results


def _copy_of_call(folder: str, function: Callable[..., Any]) -> str:
    # The workers may find this package, or another ddprun, only when they have this sys.path. The
    # name of the script is in messages.
    name = re.sub(r"\W", "_", getattr(function, "__name__", "function"))
    source = os.path.join(os.path.dirname(__file__), "_call.py")
    return str(shutil.copyfile(source, os.path.join(folder, f"launch_{name}.py")))


def _pickled(call: Any) -> bytes:
    try:
        import cloudpickle  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        return bytes(cloudpickle.dumps(call))
    function = call[0]
    try:
        pickled = pickle.dumps(call)
        problem = "is in the main program" if b"__main__" in pickled else ""
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        problem = f"cannot be pickled: {error}"
    if problem:
        raise TypeError(
            f"launch: {function!r}, or an argument, {problem}; pip install cloudpickle, or define "
            "it in a module"
        )
    return pickled


def _root_cause(error_file: str) -> str:
    import json

    try:
        with open(error_file, encoding="utf-8") as file:
            message = json.load(file)["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return str(message.get("message", "") if isinstance(message, dict) else message)
