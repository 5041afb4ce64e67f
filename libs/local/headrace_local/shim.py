"""What stands between the supervisor and each part: a few lines that run, then become the part by exec.

Run by path as ``python -I -S shim.py --parent PID --signal N [--unprivileged] -- ARGV``, so it imports the
standard library only and adds about 15 ms. It gives the part three things that only the child can give itself:

* its own session, so that everything the part starts can be found and ended together;
* a parent-death signal, so that a supervisor killed with SIGKILL takes its children with it;
* for PostgreSQL, which refuses to run as root, the user ``nobody`` with just enough capability to reach a
  data folder below a private home: no user is created and no permission of a folder above is widened.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522


def die_with_parent(libc: ctypes.CDLL, parent: int, signal_number: int) -> None:
    """Ask the kernel for `signal_number` when the parent goes; leave at once if it has gone already."""
    libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"shim: the supervisor {parent} has gone; not starting {sys.argv[-1]}")


def become_nobody(libc: ctypes.CDLL) -> None:
    """Give up root for `nobody`, keeping only the right to traverse folders (CAP_DAC_OVERRIDE, ambient)."""
    import pwd

    nobody = pwd.getpwnam("nobody")
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    bit = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Two words each of effective, permitted and inheritable; the second triple is for capabilities past 31.
    data = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    if libc.capset(ctypes.byref(header), ctypes.byref(data)) == 0:
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)
    os.environ["HOME"] = "/nonexistent"


def main() -> None:
    split = sys.argv.index("--")
    options, argv = sys.argv[1:split], sys.argv[split + 1 :]
    parent = int(options[options.index("--parent") + 1])
    signal_number = int(options[options.index("--signal") + 1])
    os.setsid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if "--unprivileged" in options and os.geteuid() == 0:
            become_nobody(libc)
        # After the change of user, which clears it.
        die_with_parent(libc, parent, signal_number)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - becoming another program is what the shim is for
    except OSError as error:
        sys.exit(f"shim: cannot start {argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
