"""Displays in memory: panes, files, and how long arrays are held."""

from __future__ import annotations

import gc
import resource
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import passes

import framelane as fl


def flat(value: int, height: int = 8, width: int = 12) -> Any:
    return np.full((height, width, 3), value, np.uint8)


def test_an_array_that_is_written_right_after() -> None:
    display, picture = fl.Offscreen(400, 300), flat(10, 300, 400)
    for value in range(10, 250, 10):
        picture[:] = value
        display.show(picture)
        picture[:] = 255
        assert (np.asarray(display.image())[:, :, :3] == value).all()


def test_an_array_that_is_dropped_right_after() -> None:
    display = fl.Offscreen(400, 300)
    for value in range(20):
        display.show(flat(value, 300, 400))
        _ = [flat(200, 300, 400) for _ in range(3)]
        assert (np.asarray(display.image())[:, :, :3] == value).all()


class Watched(np.ndarray):
    """An array that can be watched."""


class Exporter:
    """Only what DLPack asks for."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self.of.__dlpack__()


def test_no_reference_is_kept() -> None:
    display, picture = fl.Offscreen(12, 8), flat(1).view(Watched)
    count = sys.getrefcount(picture)
    for shown in [picture, Exporter(picture), memoryview(picture), picture[::-1]]:
        display.show(shown, before=picture)
    del shown
    assert sys.getrefcount(picture) == count
    with pytest.raises(fl.ArgumentError):
        display.show(picture, layout="chw", colours="turbo")
    gc.collect()
    assert sys.getrefcount(picture) == count, "nor by one that was refused"
    watch = weakref.ref(picture)
    del picture
    assert watch() is None


def test_memory_stays_flat() -> None:
    display = fl.Offscreen(64, 64)

    def shows(n: int) -> None:
        for k in range(n):
            display.show(flat(k % 256, 256, 256))
            display["other"].show(Exporter(flat(k % 256, 256, 256)))
        display.image()

    shows(200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shows(2000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000, f"{grown} KiB more after 4 000 pictures of 192 KiB"


def test_the_size_changes_from_picture_to_picture() -> None:
    display = fl.Offscreen(24, 16)
    for height, width in [(8, 12), (16, 24), (6, 9), (32, 48)]:
        display.show(flat(99, height, width))
        assert (np.asarray(display.image())[8, 12, :3] == 99).all()


def test_what_lies_beside_is_looked_at_for_itself() -> None:
    """A map of one channel over the picture that it was made of: colours and range are the map's."""
    with fl.Offscreen(12, 8) as display:
        depth = np.full((8, 12), 30.0, np.float32)
        assert display.show(depth, colours="turbo", range=(0, 80), before=flat(7)) == "shown"
        # Of one kind, it is looked at alike.
        display.show(depth, colours="turbo", range=(0, 80), before=depth)


def test_panes() -> None:
    display = fl.Offscreen(200, 100)
    for name, value in [("left", 60), ("right", 200)]:
        assert display[name].show(flat(value)) == "shown"
    image = np.asarray(display.image())
    assert {60, 200} <= set(np.unique(image[:, :, :3]))
    left, right = np.argwhere(image[:, :, 0] == 60)[:, 1], np.argwhere(image[:, :, 0] == 200)[:, 1]
    assert left.mean() < right.mean(), "in the order in which they appeared"
    assert [pane["name"] for pane in display.panes()] == ["left", "right"]
    assert display["left"].name == "left"
    assert "host" in (display["left"].path or "")
    assert display["never shown"].path is None


def test_counts() -> None:
    display = fl.Offscreen(12, 8)
    for value in range(5):
        display.show(flat(value))
        display.image()
    display.show(flat(1))
    display.show(flat(2))
    display.image()
    (pane,) = display.panes()
    assert (pane["shown"], pane["presented"], pane["dropped"]) == (7, 6, 1)
    assert pane["host_copies"] == 7
    assert pane["ended"] is None
    assert display.readbacks == 6


def test_panes_of_several_threads() -> None:
    """One makes its pane while another draws all of them: neither waits for the other for ever."""
    passes(
        """
        import threading, numpy as np, framelane as fl
        display = fl.Offscreen(64, 64)
        def shows(k):
            for _ in range(50):
                display[f"pane {k}"].show(np.full((8, 12, 3), 10 * k, np.uint8))
                display.image()
        threads = [threading.Thread(target=shows, args=(k,)) for k in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert sorted(pane["name"] for pane in display.panes()) == [f"pane {k}" for k in range(4)]
        """
    )


def test_a_refused_picture_is_not_told_of_another_display() -> None:
    display, other = fl.Offscreen(12, 8), fl.Offscreen(12, 8)
    with pytest.raises(fl.ArgumentError, match="range"):
        other.show(flat(1), range=(1, 1))
        other.image()
    for value in range(3):
        display.show(flat(value))
        display.image()


def test_a_pane_is_asked_while_another_thread_shows_in_it() -> None:
    """What lets an array go needs the interpreter, and must not wait for one who holds it and asks."""
    passes(
        """
        import threading, numpy as np, framelane as fl
        class Exporter:
            def __init__(self, of): self.of = of
            def __dlpack_device__(self): return (1, 0)
            def __dlpack__(self, **_): return self.of.__dlpack__()
        pane, picture = fl.Offscreen(8, 8)["x"], np.zeros((500, 500, 3), np.uint8)
        thread = threading.Thread(target=lambda: [pane.show(Exporter(picture)) for _ in range(300)])
        thread.start()
        while thread.is_alive():
            pane.path, repr(pane)
        """
    )


def test_files(tmp_path: Path) -> None:
    display = fl.Offscreen(12, 8)
    display.show(flat(77))
    display.save(tmp_path / "x.png")
    display.save(str(tmp_path / "y.png"))
    assert (tmp_path / "x.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "x.png").read_bytes() == (tmp_path / "y.png").read_bytes()
    for bad in [tmp_path / "no such folder" / "x.png", tmp_path / "x.unknown", tmp_path]:
        with pytest.raises(fl.IoError) as refused:
            display.save(bad)
        assert str(bad) in str(refused.value)


def test_nothing_shown_is_an_image_too() -> None:
    image = np.asarray(fl.Offscreen(12, 8).image())
    assert image.shape == (8, 12, 4)


def test_what_it_says_of_itself() -> None:
    with fl.Offscreen(12, 8) as display:
        assert display.size == (12, 8)
        assert display.adapter
        assert repr(display).startswith("Offscreen(12, 8, ")


def test_residency_counts() -> None:
    display = fl.Offscreen(12, 8)
    display.show(flat(1))
    with fl.residency("cpu") as counted:
        display.show(flat(2))
    assert counted.wall_s > 0
    assert counted.kernels > 0
    with fl.residency("cpu") as nothing:
        pass
    assert (nothing.to_device, nothing.from_device, nothing.copies, nothing.kernels) == (0, 0, 0, 0)
    assert "0 bytes to the device" in str(nothing)


def test_a_fork_is_told() -> None:
    out = passes(
        """
        import os, signal, numpy as np, framelane as fl
        picture = np.zeros((8, 8, 3), np.uint8)
        display, worker = fl.Offscreen(8, 8), fl.attach("nobody")
        display.show(picture)
        feed = fl.feed([picture] * 4, device="cpu")
        next(feed)
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            told = 0
            for use in [lambda: display.show(picture), display.image, lambda: next(feed), feed.close,
                        lambda: worker.show(picture)]:
                try:
                    use()
                except fl.UnsupportedError as error:
                    told += "fork" in str(error) and "spawn" in str(error)
            del display, feed, worker
            os._exit(told)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        feed.close()
        """
    )
    assert out == "5\n"


def test_a_fork_feeds_anew() -> None:
    """The way out that the error of the old one names."""
    out = passes(
        """
        import os, signal, numpy as np, framelane as fl
        list(fl.feed([np.arange(4.0)], device="cpu"))
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            (got,) = fl.feed([np.arange(4.0)], device="cpu")
            os._exit(7 if np.asarray(got).sum() == 6 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert out == "7\n"
