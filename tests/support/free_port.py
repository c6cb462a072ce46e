"""A free port for a program of a test to listen at."""
import socket


class FreePort:
    """Reserved until it is closed: no other process gets it by chance before its program binds it,
    or between two programs that use it in turn. One of `candidates`; 0: any."""

    def __init__(self, candidates=(0,)):
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for number in candidates:
            try:
                self.holder.bind(("", number))
                break
            except OSError:
                continue
        else:
            self.holder.close()
            raise AssertionError("no free port")
        self.number = self.holder.getsockname()[1]

    def close(self):
        self.holder.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
