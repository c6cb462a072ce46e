"""A real sshd at several loopback addresses, with its own port, keys and files in a temporary
folder."""
import contextlib
import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import time

from free_port import FreePort

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
TIME_LIMIT = 60
MARKER = "DDPRUN_SSH_TEST"

# Has its own home folder, so that start-up files of the user's shell are not read.
SERVER = """
Port {port}
{addresses}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PidFile none
MaxStartups 100
SetEnv {marker}={folder} PATH={path} HOME={folder}
"""

CLIENT = """
IdentityFile {folder}/key
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
"""


def missing():
    """Returns why sshd cannot run here; empty if it can."""
    if not SSHD or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        return "there is no sshd (Debian's openssh-server)"
    if os.geteuid() == 0 and not os.path.isdir("/run/sshd"):
        with contextlib.suppress(OSError):
            os.mkdir("/run/sshd", 0o755)  # for privilege separation
    if os.geteuid() == 0 and not os.path.isdir("/run/sshd"):
        return "sshd needs /run/sshd"
    return ""


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class SshHosts:
    def __init__(self, folder, count):
        self.folder = pathlib.Path(folder)
        self.addresses = [f"127.0.0.{number + 2}" for number in range(count)]
        self.held_port = FreePort()
        self.port = self.held_port.number
        self.make_key("host_key")
        self.make_key("key")
        public_key = (self.folder / "key.pub").read_text()
        (self.folder / "authorized_keys").write_text(public_key)
        self.know("host_key")
        values = {"folder": folder, "port": self.port, "marker": MARKER,
                  "path": os.environ["PATH"],
                  "addresses": "\n".join(f"ListenAddress {each}" for each in self.addresses)}
        (self.folder / "sshd_config").write_text(SERVER.format(**values))
        (self.folder / "ssh_config").write_text(CLIENT.format(**values))
        self.log = open(self.folder / "sshd.log", "wb")
        self.server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                                       stdin=subprocess.DEVNULL, stderr=self.log)
        self.wait_for_server()

    def make_key(self, name):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        str(self.folder / name)], check=True, stdin=subprocess.DEVNULL)

    def know(self, name):
        """Makes the client expect this key of all hosts."""
        kind, key = (self.folder / f"{name}.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(
            "".join(f"[{each}]:{self.port} {kind} {key}\n" for each in self.addresses))

    def wait_for_server(self):
        until = time.monotonic() + TIME_LIMIT
        while self.server.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(
                    (self.addresses[0], self.port), timeout=TIME_LIMIT):
                return
            time.sleep(0.01)
        raise AssertionError("sshd: " + (self.folder / "sshd.log").read_text())

    def section(self, **more):
        """Returns the section "ssh" of a configuration file."""
        return {"port": self.port, "user": getpass.getuser(),
                "options": ["-F", str(self.folder / "ssh_config")],
                "forward_variables": [MARKER], **more}

    def close(self):
        self.server.terminate()
        self.server.wait(TIME_LIMIT)
        self.log.close()
        self.held_port.close()

    def processes(self):
        """Returns command lines by process id, without sshd and its sessions."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                is_ours = self.is_marked(process)
                command = (process / "cmdline").read_text(errors="replace").replace("\0", " ")
                if is_ours and state not in "ZX":
                    found[int(process.name)] = command.strip()
        return found

    def agents(self):
        """Returns processes of agents, each with its supervisor, which sshd has started."""
        parents = {pid: parent_of(pid) for pid, command in self.processes().items()
                   if command.endswith("ddprun agent-over-ssh")}
        # A process between its fork by an agent and its exec has the command line, too.
        return {pid: parent for pid, parent in parents.items()
                if parent in parents and parents[parent] not in parents}

    def agent_of(self, node):
        """Returns the agent's process. sshd has set the address of the node in its environment."""
        address = self.addresses[node].encode()
        [agent] = [pid for pid in self.agents()
                   if address in pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
        return agent

    def client_of(self, node):
        """Returns the process of ssh for this node."""
        [client] = [pid for pid, command in self.processes().items()
                    if f" -- {self.addresses[node]} " in command]
        return client

    def is_marked(self, process):
        """Checks the environment, or the parents of a ddprun whose secret hides it."""
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            return f"{MARKER}={self.folder}".encode() in variables
        except PermissionError:
            if "ddprun" not in (process / "cmdline").read_text(errors="replace"):
                return False
        pid = int(process.name)
        while pid > 1 and pid != os.getpid():
            pid = parent_of(pid)
        return pid == os.getpid()

    def left_over(self):
        """Waits for the end of all processes and returns those that run at the time limit."""
        until = time.monotonic() + TIME_LIMIT
        while self.processes() and time.monotonic() < until:
            time.sleep(0.02)
        return self.processes()
