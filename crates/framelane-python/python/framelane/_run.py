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
    What ``main`` raises. Ctrl-C closes the window and raises ``KeyboardInterrupt`` in ``main``; a second one, here.

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

    def work() -> None:
        try:
            returned.append(main(*args, **kwargs))
        except BaseException as error:
            raised.append(error)
        finally:
            lent.end()

    # Were it stuck, a second Ctrl-C could not end the process otherwise.
    thread = threading.Thread(target=work, name="framelane.run", daemon=True)
    with _signals(lent):
        thread.start()
        interrupted = False
        while True:
            try:
                while not lent.serve():
                    pass
                break
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                _interrupt(thread)
        thread.join()
    if raised:
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


def _interrupt(thread: threading.Thread) -> None:
    """Raise ``KeyboardInterrupt`` there, at the next line that it comes to."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))
