"""The main thread lent to windows: as on systems where they must be there."""

from __future__ import annotations

import threading

from conftest import passes, run

import framelane as fl

BEGIN = """
import os, signal, sys, threading
import numpy as np, framelane as fl
picture = np.zeros((60, 80, 3), np.uint8)
"""


def test_it_calls_and_returns(display: str) -> None:
    out = passes(BEGIN + """
def main(x, k=1):
    assert threading.current_thread() is not threading.main_thread()
    for title in "one", "two":
        with fl.Window(title, size=(90, 90)) as win:
            assert win.show(picture) == "shown"
            while win.status()["drawn"] == 0:
                pass
    # No thread of their own: the windows were the main one's.
    assert "framelane windows" not in {open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")}
    return x * k

print(fl.run(main, 3, k=5), fl.run(main, 2))
""")
    assert out == "15 2\n"


def test_without_a_window() -> None:
    passes(BEGIN + "assert fl.run(lambda: 7) == 7")


def test_what_is_raised_comes_out(display: str) -> None:
    done = run(BEGIN + """
def main():
    win = fl.Window("left open", size=(90, 90))
    raise KeyError("mine")
fl.run(main)
""")
    assert done.returncode == 1
    assert "in main" in done.stderr
    assert done.stderr.rstrip().endswith("KeyError: 'mine'")


def test_exit_codes_are_kept() -> None:
    assert run(BEGIN + "fl.run(lambda: sys.exit(5))").returncode == 5


def test_a_window_that_is_left_open_is_closed(display: str) -> None:
    passes(BEGIN + """
def main():
    global win
    win = fl.Window("left open", size=(90, 90))
    win.show(picture)
fl.run(main)
assert not win
assert win.show(picture) == "closed"
""")


def test_ctrl_c_closes_the_window_and_is_raised(display: str) -> None:
    out = passes(BEGIN + """
def main():
    with fl.Window("until ctrl-c", size=(90, 90)) as win:
        while win.status()["drawn"] == 0:
            win.show(picture)
        os.kill(os.getpid(), signal.SIGINT)
        try:
            while True:
                win.show(picture)
        except KeyboardInterrupt:
            print("in main", bool(win))
            raise
try:
    fl.run(main)
except KeyboardInterrupt:
    print("and here")
assert signal.set_wakeup_fd(-1) == -1
""")
    assert out == "in main False\nand here\n"


def test_ctrl_c_without_a_window() -> None:
    out = passes(BEGIN + """
def main():
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass
try:
    fl.run(main)
except KeyboardInterrupt:
    print("here")
""")
    assert out == "here\n"


def test_a_second_ctrl_c_leaves_what_is_stuck() -> None:
    out = passes(BEGIN + """
stuck = threading.Event()
def main():
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        try:
            while True: pass
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            stuck.wait()
try:
    fl.run(main)
except KeyboardInterrupt:
    print("here")
""")
    assert out == "here\n"


def test_a_handlers_exit_code_comes_out(display: str) -> None:
    done = run(BEGIN + """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
def main():
    with fl.Window("until it is told to end", size=(90, 90)) as win:
        win.show(picture)
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            while True:
                win.show(picture)
        except SystemExit as error:
            print(error.code, bool(win))
            raise
fl.run(main)
""")
    assert (done.returncode, done.stdout, done.stderr) == (7, "None False\n", "")


def test_what_a_handler_raises_comes_out_with_what_it_says() -> None:
    done = run(BEGIN + """
def alarm(*_):
    raise TimeoutError("nobody came")
signal.signal(signal.SIGALRM, alarm)
def main():
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    while True:
        pass
fl.run(main)
""")
    assert done.returncode == 1
    assert "in main" in done.stderr
    assert done.stderr.rstrip().endswith("TimeoutError: nobody came")


def test_main_may_go_on(display: str) -> None:
    out = passes(BEGIN + """
def main():
    try:
        with fl.Window("first", size=(90, 90)) as win:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                win.show(picture)
    except KeyboardInterrupt:
        pass
    with fl.Window("second", size=(90, 90)) as win:
        return win.show(picture)
print(fl.run(main))
""")
    assert out == "shown\n"


def test_what_is_left_stuck_gets_no_window_and_does_not_hang(display: str) -> None:
    out = passes(BEGIN + """
go, over = threading.Event(), threading.Event()
def main():
    os.kill(os.getpid(), signal.SIGINT)
    while not go.is_set():
        try:
            while not go.is_set(): go.wait(0.01)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
    try:
        fl.Window("too late", size=(90, 90))
    except fl.ArgumentError as why:
        print(why)
    over.set()
try:
    fl.run(main)
except KeyboardInterrupt:
    print("here")
go.set()
over.wait()
def again():
    with fl.Window("again", size=(90, 90)) as win:
        return win.show(picture)
print(fl.run(again))
""")
    here, why, shown = out.splitlines()
    assert (here, shown) == ("here", "shown")
    assert "framelane.run, which has returned: call it again" in why


def test_many_signals_and_windows(display: str) -> None:
    out = passes(BEGIN + """
heard = 0
def hear(*_):
    global heard
    heard += 1
signal.signal(signal.SIGUSR1, hear)
def main():
    stop = threading.Event()
    def signals():
        while not stop.wait(0.0005):
            os.kill(os.getpid(), signal.SIGUSR1)
    sender = threading.Thread(target=signals)
    sender.start()
    for n in range(8):
        with fl.Window(str(n), size=(90, 90)) as win:
            while win.status()["drawn"] == 0:
                assert win.show(picture) != "closed"
    stop.set()
    sender.join()
fl.run(main)
print(heard > 0)
""")
    assert out == "True\n"


def test_afterwards_a_window_says_where_it_belongs(display: str) -> None:
    out = passes(BEGIN + """
fl.run(lambda: fl.Window("within", size=(90, 90)).close())
try:
    fl.Window("after")
except fl.ArgumentError as why:
    print(why)
""")
    assert "framelane.run, which has returned: call it again" in out


def test_where_windows_have_a_thread_it_only_calls(display: str) -> None:
    passes(BEGIN + """
win = fl.Window("before", size=(90, 90))
def main():
    assert threading.current_thread() is threading.main_thread()
    win.close()
    return 3
assert fl.run(main) == 3
""")


def test_only_the_main_thread_is_lent() -> None:
    raised: list[BaseException] = []

    def other() -> None:
        try:
            fl.run(print)
        except fl.ArgumentError as error:
            raised.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "on another one" in str(raised[0])


def test_within_itself_it_says_so() -> None:
    done = run(BEGIN + "fl.run(lambda: fl.run(lambda: 4))")
    assert done.returncode == 1
    assert "ArgumentError: framelane.run lends the main thread to windows, and was called on another one" in done.stderr
