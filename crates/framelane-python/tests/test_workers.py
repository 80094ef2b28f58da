"""Worker processes in the window of another process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import passes, until

import framelane as fl

NAME = f"pytest-{os.getpid()}"

SHOWS = """
import sys, numpy as np, framelane as fl
worker = fl.attach(sys.argv[1], pane=sys.argv[2])
assert worker and worker.path is None and worker.counts()["shown"] == 0
for k in range(int(sys.argv[3])):
    worker.show(np.full((60, 80, 3), k, np.uint8))
print("ready", flush=True)
"""


def worker(pane: str, n: int, then: str) -> subprocess.Popen[str]:
    program = textwrap.dedent(SHOWS) + textwrap.dedent(then)
    return subprocess.Popen(
        [sys.executable, "-c", program, NAME, pane, str(n)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ready(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    said = program.stdout.readline()
    assert said == "ready\n", program.communicate(timeout=10)


def well(program: subprocess.Popen[str]) -> str:
    out, err = program.communicate("\n", timeout=20)
    assert program.returncode == 0, err
    assert err == ""
    return out


@pytest.fixture
def win(display: str) -> Iterator[fl.Window]:
    with fl.Window("workers", size=(300, 200), listen=NAME) as win:
        yield win


def pane(win: fl.Window, name: str) -> Any:
    """The figures of a pane; empty if there is none."""
    return next((pane for pane in win.status()["panes"] if pane["name"].startswith(name)), {})


def test_counts_agree(win: fl.Window) -> None:
    program = worker(
        "counted",
        50,
        """
        assert worker.settle(10) == 0
        counts = worker.counts()
        assert "host" in worker.path or "shared" in worker.path, worker.path
        assert counts["drawn"] + counts["replaced"] <= counts["shown"], counts
        assert counts["shown"] + counts["dropped"] == 50, counts
        print(counts["shown"], counts["drawn"], flush=True)
        input()
        """,
    )
    ready(program)
    assert program.stdout is not None
    said = program.stdout.readline().split()
    assert len(said) == 2, program.communicate(timeout=10)
    sent, drawn = map(int, said)
    assert 1 <= drawn <= sent <= 50
    until(lambda: pane(win, "counted")["presented"] == drawn)
    assert not pane(win, "counted")["ended"]
    well(program)


def test_the_end_says_why(win: fl.Window) -> None:
    program = worker(
        "ending",
        3,
        """
        worker.settle(10)
        worker.end("the film is over")
        assert not worker
        assert worker.show(np.zeros((4, 4), np.uint8)) == "closed"
        worker.end()
        """,
    )
    ready(program)
    well(program)
    until(lambda: pane(win, "ending").get("ended"))
    assert "the film is over" in pane(win, "ending")["ended"]
    assert win, "the window goes on"


def test_an_exception_is_the_end(win: fl.Window) -> None:
    program = worker(
        "raising",
        1,
        """
        try:
            with worker:
                raise ValueError("out of film")
        except ValueError:
            pass
        """,
    )
    ready(program)
    well(program)
    until(lambda: pane(win, "raising").get("ended"))
    assert "out of film" in pane(win, "raising")["ended"]


def test_one_that_is_killed(win: fl.Window) -> None:
    program, other = worker("killed", 5, "input()"), worker("other", 5, "input(); print(worker.show(np.zeros((4, 4), np.uint8)))")
    ready(program)
    ready(other)
    program.kill()
    program.communicate(timeout=10)
    until(lambda: pane(win, "killed").get("ended"))
    assert not pane(win, "other").get("ended")
    out, err = other.communicate("\n", timeout=20)
    assert out.strip() in ("shown", "replaced"), err
    again = worker("killed", 2, "worker.settle(10)")
    ready(again)
    well(again)


def test_a_window_that_is_closed(win: fl.Window) -> None:
    program = worker(
        "left",
        2,
        """
        input()
        import time
        end = time.monotonic() + 10
        while worker:
            assert time.monotonic() < end
            time.sleep(0.005)
        assert not worker.lost
        assert worker.show(np.zeros((4, 4), np.uint8)) == "closed"
        """,
    )
    ready(program)
    win.close()
    out, err = program.communicate("\n", timeout=20)
    assert program.returncode == 0, err


def test_a_window_that_is_killed(display: str) -> None:
    window = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import framelane as fl; win = fl.Window('killed', size=(90, 90), listen={NAME!r}); print('ready', flush=True); win.wait()",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    ready(window)
    here = fl.attach(NAME, pane="survivor")
    here.show(np.zeros((4, 4, 3), np.uint8), layout="hwc")
    os.kill(window.pid, signal.SIGKILL)
    window.wait(10)
    until(lambda: not here)
    assert here.lost
    assert here.show(np.zeros((4, 4, 3), np.uint8), layout="hwc") == "closed"


def test_no_such_window() -> None:
    here = fl.attach("nobody-listens")
    with pytest.raises(fl.ClosedError, match="nobody-listens"):
        here.show(np.zeros((4, 4), np.uint8))
    for name in ["", "a b", "x" * 65, "../x"]:
        with pytest.raises(fl.ArgumentError, match="letters"):
            fl.attach(name)


def test_a_name_that_is_taken(win: fl.Window) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import framelane as fl\nfl.Window('x', listen={NAME!r})"],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 1
    assert NAME in done.stderr.splitlines()[-1]


def spawned(name: str, pane: str) -> None:
    """In a process that multiprocessing spawned."""
    with fl.attach(name, pane=pane) as here:
        for k in range(10):
            here.show(np.full((20, 30, 3), k, np.uint8))
        assert here.settle(10) == 0


def test_spawned_processes(win: fl.Window) -> None:
    context = multiprocessing.get_context("spawn")
    all_ = [context.Process(target=spawned, args=(NAME, f"spawned {k}")) for k in range(2)]
    for process in all_:
        process.start()
    for process in all_:
        process.join(30)
        assert process.exitcode == 0
    until(lambda: all(pane(win, f"spawned {k}").get("ended") is not None for k in range(2)))


def test_forked_processes(display: str) -> None:
    """The window is the parent's; a child may attach to it as any process."""
    out = passes(
        """
        import os, signal, sys, numpy as np, framelane as fl
        picture = np.zeros((8, 9, 3), np.uint8)
        with fl.Window("parent", size=(90, 90), listen=sys.argv[1]) as win:
            win.show(picture)
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                told = 0
                for use in [lambda: win.show(picture), win.close, win.keys, win.status]:
                    try:
                        use()
                    except fl.UnsupportedError as error:
                        told += "fork" in str(error)
                told += not win
                os._exit(told)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            assert win.show(picture) != "closed"
        """,
        NAME + "-fork",
    )
    assert out == "5\n"
