"""The main thread, lent to windows."""

from __future__ import annotations

import ctypes
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from . import _native

P = ParamSpec("P")
R = TypeVar("R")

# What ends a program: windows close for them, so that what handles them is heard.
_ENDS = {signal.SIGINT, signal.SIGTERM}


def run(main: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``main`` on a thread of its own, and lend this one, the main thread, to the windows that it opens.

    macOS demands that windows are the main thread's. Elsewhere they have a thread of their own, and nobody needs this; a
    program that calls it runs on all systems.

    Parameters
    ----------
    main
        Called with the other arguments. When it returns, the window that is open is closed.

    Returns
    -------
    What ``main`` returns.

    Raises
    ------
    What ``main`` raises. Ctrl-C closes the window and raises ``KeyboardInterrupt`` in ``main``; a second one, here. So it is
    with what a handler of yours raises, for SIGTERM too. While a window is open, handlers of other signals wait for its end.

    ArgumentError
        This is not the main thread.

    Examples
    --------
    >>> def main():  # doctest: +SKIP
    ...     with fl.Window("latent walk") as win:
    ...         while win:
    ...             win.show(net(z))
    >>> fl.run(main)  # doctest: +SKIP
    """
    if threading.current_thread() is not threading.main_thread():
        raise _native.ArgumentError("framelane.run lends the main thread to windows, and was called on another one")
    lent = _native.lend()
    if lent is None:
        return main(*args, **kwargs)
    returned: list[R] = []
    raised: list[BaseException] = []
    begin, given_up = threading.Event(), threading.Event()

    def work() -> None:
        try:
            begin.wait()
            if not given_up.is_set():
                returned.append(main(*args, **kwargs))
        except BaseException as error:
            raised.append(error)
        finally:
            lent.end()

    # Were it stuck, a second Ctrl-C could not end the process otherwise.
    thread = threading.Thread(target=work, name="framelane.run", daemon=True)
    handlers: BaseException | None = None
    with _signals(lent):
        # A handler of signals may raise after any line of these.
        try:
            thread.start()
            while True:
                try:
                    begin.set()
                    while not lent.serve():
                        pass
                    break
                except BaseException as error:
                    if handlers is not None or not begin.is_set():
                        raise
                    handlers = error
                    lent.look(close=True)
                    _raise_in(thread, type(error))
        finally:
            if not begin.is_set():
                given_up.set()
                begin.set()
            lent.end()
        thread.join()
    if raised:
        # There it has no arguments: an exit code, say.
        if handlers is not None and handlers.args and type(handlers) is type(raised[0]):
            raise handlers from raised[0]
        raise raised[0]
    return returned[0]


@contextmanager
def _signals(lent: _native.Lent) -> Iterator[None]:
    """While a window is shown, Python hears no signal: have it shown no longer when one comes."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        while came := reader.recv(64):
            lent.look(close=not _ENDS.isdisjoint(came))

    watcher = threading.Thread(target=watch, name="framelane signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        reader.close()


def _raise_in(thread: threading.Thread, kind: type[BaseException]) -> None:
    """Raise that kind of exception there, at the next line that it comes to."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(kind))
