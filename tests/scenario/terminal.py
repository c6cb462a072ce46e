"""A pseudo terminal with a program on it, and the content of its screen."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

TIME_LIMIT = 60.0


class Screen:
    """Rows of text, with the few escape sequences that ddprun sends; rows never scroll off."""

    def __init__(self, columns):
        self.columns = columns
        self.rows = [""]
        self.row = self.column = 0

    def take(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]|\x1b", text):
            if part == "\n":
                self._to(self.row + 1)
            elif part == "\r":
                self.column = 0
            elif part.startswith("\x1b["):
                self._escape(part[-1], part[2:-1])
            elif part.isprintable():
                self._put(part)

    def text(self):
        return [row.rstrip() for row in self.rows]

    def _escape(self, letter, number):
        if letter == "A":
            self._to(max(0, self.row - int(number or 1)))
        if letter in "JK":
            self.rows[self.row] = self.rows[self.row][:self.column]
        if letter == "J":
            del self.rows[self.row + 1:]

    def _to(self, row):
        self.row = row
        self.rows += [""] * (row + 1 - len(self.rows))

    def _put(self, letter):
        if self.column == self.columns:
            self.column = 0
            self._to(self.row + 1)
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[:self.column] + letter + row[self.column + 1:]
        self.column += 1


class Terminal:
    """Runs a program as the leader of a session on a terminal of its own. A variable of
    `environment` that is None is not set."""

    def __init__(self, command, columns=60, rows=24, environment=None):
        self.screen = Screen(columns)
        self.bytes = b""
        self.status = None
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            try:
                size = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(0, termios.TIOCSWINSZ, size)
                os.environ["TERM"] = "xterm"
                for name, value in (environment or {}).items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value
                os.execvp(command[0], command)
            finally:
                os._exit(127)

    def send(self, text):
        os.write(self._master, text.encode())

    def hang_up(self):
        """Closes the terminal like a closed window."""
        os.close(self._master)
        self._master = -1

    def read_until(self, condition, what):
        """Reads until the condition is true; fails after TIME_LIMIT or at the terminal's end."""
        until = time.monotonic() + TIME_LIMIT
        while not condition():
            if time.monotonic() > until or not self._read(until):
                screen = "\n".join(self.screen.text())
                raise AssertionError(f"{what} did not come about; the screen:\n{screen}")

    def read_to_end(self):
        """Reads until the terminal is closed by all processes; returns the exit status (waitpid's).
        """
        until = time.monotonic() + TIME_LIMIT
        while self._master >= 0 and self._read(until):
            pass
        return self.wait()

    def wait(self):
        self.status = os.waitpid(self.pid, 0)[1]
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self._master >= 0:
            os.close(self._master)

    def _read(self, until):
        if not select.select([self._master], [], [], max(0, until - time.monotonic()))[0]:
            return False
        try:
            new = os.read(self._master, 65536)
        except OSError:  # the other side was closed
            new = b""
        self.bytes += new
        self.screen.take(new.decode(errors="replace"))
        return bool(new)
