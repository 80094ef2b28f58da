"""The program ``framelane``."""

from __future__ import annotations

import sys

from . import _native


def main() -> int:
    """Run the program with this process's arguments; its exit code."""
    return _native.program(["framelane", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
