"""Programs that end with a window open and a feed running: soon, with the right code, and without a strange word."""

from __future__ import annotations

import pytest
from conftest import run

BEGIN = """
import itertools, os, signal, sys, threading, time
import numpy as np, framelane as fl
picture = np.zeros((60, 80, 3), np.uint8)
win = fl.Window("ending", size=(90, 90))
win.show(picture)
display = fl.Offscreen(80, 60)
display.show(picture)
feed = fl.feed((picture + k % 7 for k in itertools.count()), device="cpu")
batch = next(feed)
"""

ENDS = {
    "the end of the program": ("pass", 0, ""),
    "sys.exit": ("sys.exit(3)", 3, ""),
    "sys.exit in the loop": ("for batch in feed:\n    win.show(batch)\n    sys.exit(4)", 4, ""),
    "an exception in the loop": ("for batch in feed:\n    raise KeyError('mine')", 1, "KeyError: 'mine'"),
    "an exception in a with": ("with win, feed:\n    raise KeyError('mine')", 1, "KeyError: 'mine'"),
    "an interrupt": ("os.kill(os.getpid(), signal.SIGINT)\nwin.wait(20)", -2, "KeyboardInterrupt"),
    "a thread that shows": (
        "threading.Thread(target=lambda: [win.show(picture) for _ in itertools.count()], daemon=True).start()\n"
        "while win.status()['drawn'] == 0: pass",
        0,
        "",
    ),
    "a thread that feeds": (
        "threading.Thread(target=lambda: [batch for batch in feed], daemon=True).start()\n"
        "while feed.stats()['batches'] < 5: pass",
        0,
        "",
    ),
    "a source that blocks": (
        "held = fl.feed((threading.Event().wait() for _ in range(3)), device='cpu')\n"
        "threading.Thread(target=lambda: list(held), daemon=True).start()\n"
        "while 'not begun' in repr(held): pass",
        0,
        "",
    ),
    "what was let go before": ("del win, feed, batch, display", 0, ""),
    "a cycle": ("class Holds: pass\nholds = Holds(); holds.me, holds.all = holds, (win, feed, batch, display)", 0, ""),
    "os._exit": ("os._exit(5)", 5, ""),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_end(how: str, display: str) -> None:
    then, code, last = ENDS[how]
    done = run(BEGIN + then + "\n", timeout=5)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert (lines[-1] if lines else "") == last
    if not last:
        assert lines == []
    assert "panic" not in done.stderr


def test_many_feeds_at_the_end() -> None:
    done = run(
        """
        import itertools, numpy as np, framelane as fl
        feeds = [fl.feed((np.zeros(9) for _ in itertools.count()), device="cpu") for _ in range(20)]
        batches = [next(feed) for feed in feeds]
        """,
        timeout=5,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_import_and_end() -> None:
    done = run("import framelane", timeout=5)
    assert (done.returncode, done.stderr) == (0, "")
