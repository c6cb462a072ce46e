#!/usr/bin/env python3
"""The Python package ddprun does nothing without a launcher, and survives wrong variables."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
CALLS = "import ddprun; ddprun.heartbeat(); ddprun.heartbeat()"


def call_with(variables, fds=()):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("DDPRUN_")
    }
    environment.update(variables, PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([sys.executable, "-W", "error", "-c", CALLS], env=environment,
                          pass_fds=fds, timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def variables_for(descriptor, slot="0"):
    return {"DDPRUN_CONTROL_FD": str(descriptor), "DDPRUN_CONTROL_SLOT": slot}


class PythonPackageTest(unittest.TestCase):
    def check_silent(self, variables, fds=()):
        result = call_with(variables, fds)
        self.assertEqual((result.returncode, result.stdout), (0, ""), variables)

    def test_calls_without_a_launcher_do_nothing(self):
        self.check_silent({})

    def test_wrong_variables_are_ignored(self):
        for descriptor in ("", "x", "-1", "999", "99999999999999999999"):
            self.check_silent(variables_for(descriptor))

    def test_a_descriptor_of_another_file_is_ignored_and_not_written(self):
        for content in (b"", b"1234", bytes(100000)):
            with tempfile.TemporaryFile() as file:
                file.write(content)
                file.flush()
                descriptor = file.fileno()
                self.check_silent(variables_for(descriptor), (descriptor,))
                file.seek(0)
                self.assertEqual(file.read(), content)
        read_end, write_end = os.pipe()
        self.check_silent({"DDPRUN_CONTROL_FD": str(read_end), "LOCAL_RANK": "0"}, (read_end,))
        os.close(read_end)
        os.close(write_end)

    def test_a_slot_outside_the_memory_is_ignored(self):
        magic, workers = 0x6464_7072_756E_0004, 2
        with tempfile.TemporaryFile() as file:
            header = struct.pack("=Qi", magic, workers)
            file.write(header + bytes(8192 + workers * 331776 - len(header)))
            file.flush()
            descriptor = file.fileno()
            before = os.pread(descriptor, 10**7, 0)
            for slot in ("2", "-1", "x", "1000000"):
                self.check_silent(variables_for(descriptor, slot), (descriptor,))
            self.assertEqual(os.pread(descriptor, 10**7, 0), before)
            self.check_silent(variables_for(descriptor, "1"), (descriptor,))
            self.assertNotEqual(os.pread(descriptor, 10**7, 0), before)


if __name__ == "__main__":
    unittest.main()
