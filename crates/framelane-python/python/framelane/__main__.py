"""The program ``framelane``: also as ``python -m framelane``."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Run the program with this process's arguments; its exit code."""
    # The program stops by itself, and says what became of its work: Python is not to be interrupted behind it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(["framelane", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
