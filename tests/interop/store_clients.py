"""Common parts of tests of the store: clients of the agent's server and of PyTorch's own.

They run as a worker of ddprun, whose store they use.
"""
import concurrent.futures
import datetime
import itertools
import os
import sys
import time
import unittest

# Otherwise PyTorch's own server logs DNS results, and that a port is in use.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
import torch.distributed as dist  # noqa: E402  pylint: disable=wrong-import-position

PrefixStore = dist.PrefixStore
SECONDS_ALLOWED = 60
now = time.monotonic

_numbers = itertools.count()


def has_libuv():
    """Returns False for a PyTorch 2.4 or later built without libuv; older ones do not use it."""
    try:
        dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    except RuntimeError as error:
        if "without libuv" not in str(error):
            raise
        return False
    return True


OPTIONS = {} if has_libuv() else {"use_libuv": False}


def connect(host, port, world_size=None, is_master=False, seconds=SECONDS_ALLOWED):
    return dist.TCPStore(host, port, world_size, is_master, datetime.timedelta(seconds=seconds),
                         wait_for_workers=world_size is not None, **OPTIONS)


def connect_to_agent(**options):
    return connect(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), **options)


def has_method(name):
    return hasattr(dist.TCPStore, name)


def is_legacy():
    """Returns True for versions with the older dialect."""
    return not has_method("append")


def needs_method(name):
    return unittest.skipUnless(has_method(name), f"this PyTorch has no {name}")


needs_queues = unittest.skipUnless(has_method("queue_push") and not OPTIONS,
                                   "this PyTorch has no queues, or not without libuv")


def in_thread(call):
    """Returns a future of the call's result."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return future


class StoreTest(unittest.TestCase):
    # Name of the exception after a timeout.
    timed_out = "RuntimeError" if is_legacy() else "DistStoreError"

    @classmethod
    def setUpClass(cls):
        cls.ours = connect_to_agent()
        cls.theirs = connect("127.0.0.1", 0, is_master=True)

    @staticmethod
    def new_key():
        return f"key{next(_numbers)}"

    @staticmethod
    def connect(**options):
        return connect_to_agent(**options)

    def connect_like(self, store):
        """Returns another client of the same server."""
        return self.connect() if store is self.ours else connect("127.0.0.1", self.theirs.port)

    def same(self, expected, use):
        """Asserts that use(store, key), with a new key, has the same result on both servers."""
        key = self.new_key()
        self.assertEqual(use(self.theirs, key), expected, "PyTorch's server")
        self.assertEqual(use(self.ours, key), expected, "the agent's server")

    @staticmethod
    def failure(call):
        """Returns the name of the exception."""
        try:
            call()
        except Exception as error:  # pylint: disable=broad-except
            return type(error).__name__
        return "no failure"


def main():
    print("PyTorch", sys.modules["torch"].__version__)
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    if not unittest.main(testRunner=runner, exit=False).result.wasSuccessful():
        sys.exit(1)
    print("passed")
