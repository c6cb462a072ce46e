"""Seccomp filters that reject single system calls, like sandboxes."""
import ctypes
import errno
import subprocess

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_ERRNO = 0x00050000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of classic BPF
# From struct seccomp_data; the lower half of the argument on little-endian processors.
NUMBER_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 16


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8),
                ("if_false", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def numbers_of(names):
    """Returns the numbers of the system calls of this architecture, by name."""
    lines = "".join(f'"{name}" SYS_{name}\n' for name in names)
    text = subprocess.run(["cc", "-E", "-P", "-"], input="#include <sys/syscall.h>\n" + lines,
                          capture_output=True, text=True, check=True).stdout
    pairs = (line.split() for line in text.splitlines() if line.startswith('"'))
    return {name.strip('"'): int(number) for name, number in pairs if number.isdigit()}


def refuse(number, error=errno.EPERM, first_argument=None):
    """Makes system call `number` of this process and its later children fail with `error`; if
    `first_argument` is given, only with that argument. To be called between fork and exec."""
    program = [(LOAD_WORD, 0, 0, NUMBER_OFFSET)]
    if first_argument is None:
        program += [(JUMP_IF_EQUAL, 0, 1, number)]
    else:
        program += [(JUMP_IF_EQUAL, 0, 3, number), (LOAD_WORD, 0, 0, FIRST_ARGUMENT_OFFSET),
                    (JUMP_IF_EQUAL, 0, 1, first_argument)]
    program += [(RETURN, 0, 0, SECCOMP_RET_ERRNO | error), (RETURN, 0, 0, SECCOMP_RET_ALLOW)]
    instructions = (Instruction * len(program))(*program)
    loaded = Program(len(program), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(loaded)) != 0):
        raise OSError(ctypes.get_errno(), "prctl")
