"""A window on a virtual screen."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import passes, until

import framelane as fl


def flat(value: int) -> Any:
    return np.full((60, 80, 3), value, np.uint8)


def test_it_opens_without_a_main_loop(display: str) -> None:
    with fl.Window("one", size=(320, 240)) as win:
        assert win
        assert not win.closed
        assert win.title == "one"
        assert win.adapter
        until(lambda: win.show(flat(9)) in ("shown", "replaced") and win.status()["drawn"] > 0)
        status = win.status()
        assert status["open"]
        assert status["size"] == (320, 240)
        assert not status["paused"]
        assert not status["full_screen"]
        (pane,) = status["panes"]
        assert pane["shown"] > 0
        assert pane["host_copies"] > 0
        assert repr(win) == "Window(\"one\", open)"
    assert not win
    assert win.closed
    assert win.show(flat(1)) == "closed"
    assert win["other"].show(flat(1)) == "closed"
    assert win.wait(0)
    win.close()
    assert repr(win) == "Window(\"one\", closed)"


def test_looking_at_the_machine_takes_no_window_away(display: str) -> None:
    out = passes("""
        import framelane as fl
        def line():
            (line,) = [line for line in fl.doctor().splitlines() if line.strip().startswith("screen")]
            return line
        before = line()
        with fl.Window("one", size=(90, 90)) as win:
            during = line()
            adapter = win.adapter
        assert f"the screen of the open window, {adapter}" in during, during
        assert line() == before
        def main():
            before = line()
            with fl.Window("one", size=(90, 90)):
                assert line() == during
            assert line() == before
        fl.run(main)
        assert line() == before
        print(before)
    """)
    assert f"X11 {display}" in out


def test_what_lends_its_thread_first_looks_there(display: str) -> None:
    passes("""
        import framelane as fl
        def line():
            (line,) = [line for line in fl.doctor().splitlines() if line.strip().startswith("screen")]
            return line
        def main():
            before = line()
            with fl.Window("one", size=(90, 90)) as win:
                assert f"the screen of the open window, {win.adapter}" in line()
            return before
        before = fl.run(main)
        assert line() == before and "X11" in before, (line(), before)
        fl.run(main)
    """)


def test_it_opens_with_its_first_picture(display: str) -> None:
    with fl.Window("sized by it") as win:
        win.show(np.zeros((300, 400, 3), np.uint8))
        until(lambda: win.status()["drawn"] > 0)
        assert win.status()["size"] == (400, 300)


def test_one_after_another(display: str) -> None:
    for k in range(4):
        with fl.Window(f"window {k}", size=(100, 100)) as win:
            assert win.show(flat(k)) == "shown"


def test_a_second_one_is_refused(display: str) -> None:
    with fl.Window("first", size=(100, 100)) as win:
        with pytest.raises(fl.ArgumentError, match=r"one at a time.*win\[") as refused:
            fl.Window("second")
        assert "close it" in str(refused.value)
        assert win.show(flat(1)) == "shown", "the first one does not mind"


def test_panes_and_threads(display: str) -> None:
    wrong: list[BaseException] = []
    with fl.Window("threads", size=(300, 200)) as win:

        def shows(name: str) -> None:
            try:
                for k in range(100):
                    assert win[name].show(flat(k)) in ("shown", "replaced")
            except BaseException as error:
                wrong.append(error)

        names = [f"pane {k}" for k in range(4)]
        all_ = [threading.Thread(target=shows, args=(name,)) for name in names]
        for thread in all_:
            thread.start()
        for thread in all_:
            thread.join(30)
            assert not thread.is_alive()
        assert not wrong
        until(lambda: [pane["shown"] for pane in win.status()["panes"]] == [100] * 4)
        assert sorted(pane["name"] for pane in win.status()["panes"]) == names


def test_keys(press: Callable[..., None]) -> None:
    with fl.Window("keys", size=(200, 100)) as win:
        win.show(flat(1))
        got: list[str] = []
        press("keys", "y", "Return", "7")

        def three() -> bool:
            got.extend(win.keys())
            return len(got) >= 3

        until(three)
        assert got[0] == "y"
        assert "7" in got
        assert win.keys() == []


def test_the_user_closes_it(press: Callable[..., None]) -> None:
    with fl.Window("closing", size=(200, 100)) as win:
        threading.Timer(0.1, press, ("closing", "q")).start()
        start, rounds = time.monotonic(), 0
        while win:
            win.show(flat(rounds % 256))
            rounds += 1
            assert time.monotonic() - start < 20
        assert rounds > 0
        assert win.show(flat(1)) == "closed"


def test_wait(display: str) -> None:
    with fl.Window("waiting", size=(200, 100)) as win:
        start = time.monotonic()
        assert not win.wait(0.2)
        assert 0.15 < time.monotonic() - start < 2
        assert not win.wait(0)
        for wrong in [-1, float("nan")]:
            with pytest.raises(fl.ArgumentError, match="seconds"):
                win.wait(wrong)
        closer = threading.Timer(0.1, win.close)
        closer.start()
        assert win.wait()
        closer.join()


def test_an_interrupt_while_it_is_waited_for(display: str) -> None:
    with fl.Window("interrupted", size=(200, 100)) as win:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            win.wait(20)
        assert win


def test_an_exception_in_its_block_goes_first(display: str) -> None:
    with pytest.raises(ZeroDivisionError), fl.Window("raising", size=(200, 100)) as win:
        win.show(flat(1))
        1 // 0
    assert win.closed


def test_before_and_looks(display: str) -> None:
    with fl.Window("looks", size=(200, 100)) as win:
        win.show(flat(1), before=flat(2))
        win["depth"].show(np.zeros((8, 8), np.float32), colours="turbo", range=(-1, 1), mark=True)
        with pytest.raises(fl.ArgumentError, match="cannot be shown"):
            win.show(np.zeros((3, 3, 3, 3), np.uint8))
        assert win


def test_no_screen() -> None:
    passes(
        """
        import framelane as fl
        try:
            fl.Window("nowhere")
        except fl.NoScreenError as error:
            text = str(error)
            assert isinstance(error, fl.UnsupportedError)
            assert "Offscreen" in text and ".save" in text and "DISPLAY" in text, text
            assert "\\n" not in text
        else:
            raise SystemExit("a window without a screen")
        fl.Offscreen(4, 4).image()
        """,
        env={"DISPLAY": "", "WAYLAND_DISPLAY": "", "WAYLAND_SOCKET": ""},
    )


def test_a_screen_that_is_not_there() -> None:
    passes(
        """
        import framelane as fl
        for _ in range(2):
            try:
                fl.Window("nowhere")
            except fl.NoScreenError as error:
                assert "Offscreen" in str(error)
            else:
                raise SystemExit("a window without a screen")
        """,
        env={"DISPLAY": ":12345", "WAYLAND_DISPLAY": "", "WAYLAND_SOCKET": ""},
    )
