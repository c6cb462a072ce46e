"""A FUSE file system with one file whose reads never return: its reader is in state D like on a
dead NFS server, and not even SIGKILL ends it. Needs root and /dev/fuse."""
import ctypes
import errno
import os
import stat
import struct
import threading

# From linux/fuse.h.
LOOKUP, FORGET, GETATTR, OPEN, READ = 1, 2, 3, 14, 15
RELEASE, FLUSH, INIT, INTERRUPT = 18, 25, 26, 36
FOPEN_DIRECT_IO = 1
ROOT_ID = 1
FILE_ID = 2
FILE_BYTES = 4096
REQUEST_BYTES_MAX = 1 << 20
IN_HEADER = struct.Struct("=IIQQIIII")  # length, opcode, unique, node, ...
OUT_HEADER = struct.Struct("=IiQ")  # length, error, unique

MNT_FORCE, MNT_DETACH = 1, 2


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == ROOT_ID else stat.S_IFREG | 0o644
    return struct.pack("=6Q10I", node, FILE_BYTES, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 512, 0)


class HungFileSystem:
    """Mounted until close(), which releases the readers. Raises OSError if it cannot be mounted."""

    def __init__(self, folder):
        self.folder = folder
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self.libc.mount(b"hung", os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
            os.close(self.device)
            raise OSError(ctypes.get_errno(), "mount")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def file(self):
        return self.folder / "file"

    def close(self):
        self.libc.umount2(os.fsencode(self.folder), MNT_FORCE)  # ends the connection
        self.libc.umount2(os.fsencode(self.folder), MNT_DETACH)
        self.thread.join()
        os.close(self.device)

    def serve(self):
        while True:
            try:
                request = os.read(self.device, REQUEST_BYTES_MAX)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return  # ENODEV: unmounted
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
            if opcode not in (READ, FORGET, INTERRUPT):
                self.answer(unique, opcode, node)

    def answer(self, unique, opcode, node):
        failed = 0
        body = b""
        if opcode == INIT:
            body = struct.pack("=4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
        elif opcode == LOOKUP:
            body = struct.pack("=4Q2I", FILE_ID, 0, 1, 1, 0, 0) + attributes(FILE_ID)
        elif opcode == GETATTR:
            body = struct.pack("=Q2I", 1, 0, 0) + attributes(node)
        elif opcode == OPEN:
            body = struct.pack("=Q2I", 0, FOPEN_DIRECT_IO, 0)
        elif opcode not in (RELEASE, FLUSH):
            failed = -errno.ENOSYS
        os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + len(body), failed, unique) + body)
