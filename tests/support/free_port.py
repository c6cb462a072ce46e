"""A port at which a program of a test is to listen."""
import socket


class FreePort:
    """Kept until it is closed: nobody else gets it by chance before the one for whom it is meant
    asks for it, or between two who are to have it in turn. One of `candidates`; 0: any."""

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
