"""The native part of the package: what ``framelane`` gives on."""

from collections.abc import Callable, Iterable
from os import PathLike
from types import TracebackType
from typing import Any, Literal, TypedDict, final

from typing_extensions import CapsuleType

__version__: str

_Layout = Literal["hwc", "chw", "HWC", "CHW"]
_Colours = Literal["grey", "viridis", "turbo"]

class _PaneStatus(TypedDict):
    name: str
    path: str
    shown: int
    presented: int
    dropped: int
    hidden: int
    host_copies: int
    ended: str | None

class _WindowStatus(TypedDict):
    open: bool
    size: tuple[int, int]
    paused: bool
    full_screen: bool
    path: str
    drawn: int
    readbacks: int
    panes: list[_PaneStatus]

class _WorkerCounts(TypedDict):
    shown: int
    drawn: int
    unseen: int
    replaced: int
    dropped: int
    host_copies: int

class _Position(TypedDict):
    epoch: int
    batch: int

class _Counters(TypedDict):
    to_device: int
    from_device: int
    within: int
    copies: int
    kernels: int
    pinned_bytes: int
    device_bytes: int
    cpu_waits: dict[str, tuple[int, float]]

class _Stats(TypedDict):
    batches: int
    limited_by: str
    source_s: float
    convert_s: float
    copy_s: float
    device_convert_s: float
    consumer_wait_s: float
    compute_wait_s: float
    compute_s: float
    held_back_s: float
    wall_s: float
    bytes_to_device: int
    pinned_bytes: int
    device_bytes: int
    text: str

class Error(Exception):
    """What went wrong, in one sentence: what, where, what to do. Each error of framelane's own is one."""

class InputError(Error):
    """Data is damaged, truncated or not what its name says."""

class UnsupportedError(Error):
    """This build or machine cannot do it. Also: an object is used in a child that was forked after it was made."""

class NoScreenError(UnsupportedError):
    """There is no screen for a window here. ``Offscreen`` needs none."""

class ArgumentError(Error):
    """An argument makes no sense here: says what came and what is taken."""

class ModelError(Error):
    """A network failed to load or to run."""

class DeviceError(Error):
    """A device refused or failed an operation."""

class BudgetError(Error):
    """A stated budget of memory would be exceeded, or all slots of a feed are held."""

class IoError(Error):
    """The operating system refused to read or write."""

class ClosedError(Error):
    """The other side has stopped."""

class TimeoutError(Error):
    """Something did not happen within the given time."""

class CancelledError(Error):
    """Somebody asked for the work to stop."""

class HazardError(Error):
    """Two accesses to the same bytes are not ordered."""

class PanicError(Error):
    """Code given to the library panicked, or the library itself did."""

@final
class Tensor:
    """A packed array in memory of framelane's, for any library to take.

    Take it by ``numpy.asarray``, ``torch.from_dlpack``, ``cupy.from_dlpack`` or ``jax.dlpack.from_dlpack``: none of
    them copies. On a CUDA device it lies in a slot of a feed. The slot is not written while this object, or an array
    that was taken from it, lives, nor before the streams that read it are done.

    There is no constructor: ``Offscreen.image`` and ``feed`` give such.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension; empty for a scalar."""

    @property
    def dtype(self) -> str:
        """The type of its elements, by NumPy's name: ``"uint8"``, ``"float32"``, ``"bfloat16"``, …"""

    @property
    def device(self) -> str:
        """``"cpu"``, or ``"cuda:N"``."""

    @property
    def nbytes(self) -> int:
        """Bytes of its elements together."""

    @property
    def ndim(self) -> int:
        """Dimensions; 0 for a scalar."""

    def __len__(self) -> int:
        """The first dimension's extent.

        Raises
        ------
        TypeError
            It has no dimensions.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type (1: CPU, 2: CUDA) and the device's number."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A DLPack capsule, without a version, that holds the memory.

        Parameters
        ----------
        stream
            On CUDA, the address of the stream that reads it: that stream waits on the device, and not the CPU, until the
            tensor is there, and the slot waits for it later. ``None`` or 1 is the legacy default stream, -1 says that the
            reader orders itself.
        max_version
            Of no effect.
        dl_device, copy
            Another device than its own, and a copy, are refused.

        Raises
        ------
        BufferError
            A copy, or another device, was asked for.
        ArgumentError
            ``stream`` is 0, which DLPack forbids for CUDA.
        """

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's interface, of a tensor on the CPU; ``AttributeError`` on CUDA, and for bfloat16."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of Numba's interface, of a tensor on CUDA; ``AttributeError`` on the CPU, and for bfloat16.

        Names CuPy's current stream as its reader if CuPy is loaded, and a stream of framelane's otherwise.
        """

    def record_stream(self, stream: Any) -> None:
        """Name another stream that reads the tensor: its slot is not written before that one is done, either.

        On the CPU this does nothing.

        Parameters
        ----------
        stream
            PyTorch's or CuPy's stream, or its address.

        Raises
        ------
        ArgumentError
            It is no stream.
        """

@final
class Pane:
    """A named part of a display or window: ``win["left"]``.

    It takes its place when the first picture is shown in it. There is no constructor.
    """

    def show(
        self,
        tensor: Any,
        *,
        layout: _Layout | None = None,
        range: tuple[float, float] | None = None,
        colours: _Colours | None = None,
        bgr: bool = False,
        mark: bool = False,
        before: Any = None,
    ) -> Literal["shown", "replaced", "closed"]:
        """Show an array in this pane.

        As ``Window.show``; an ``Offscreen``'s pane never says ``"closed"``. All arrays of a pane are of the CPU, or of
        one CUDA device.
        """

    @property
    def name(self) -> str:
        """What the pane is called."""

    @property
    def path(self) -> str | None:
        """The way that its pictures take to the display, and why not a shorter one; ``None`` before the first."""

@final
class Offscreen:
    """A display in memory, for tests, servers and files: its ``show`` is ``Window``'s.

    Parameters
    ----------
    width, height
        Of what is drawn, in pixels.
    device
        ``"cuda"``, ``"cuda:1"``: draw on that GPU; ``"cpu"``: on any adapter. If nothing is said: on the first CUDA
        device, if there is one.

    Raises
    ------
    ArgumentError
        ``width`` or ``height`` is 0 or too large, or ``device`` names none.
    UnsupportedError
        Nothing here can draw: there is no Vulkan driver, not even one in software.

    Examples
    --------
    >>> import numpy as np, framelane as fl
    >>> display = fl.Offscreen(4, 2)
    >>> display.show(np.zeros((2, 4, 3), np.uint8))
    'shown'
    >>> np.asarray(display.image()).shape
    (2, 4, 4)
    """

    def __new__(cls, width: int, height: int, *, device: Any = None) -> Offscreen: ...
    def show(
        self,
        tensor: Any,
        *,
        layout: _Layout | None = None,
        range: tuple[float, float] | None = None,
        colours: _Colours | None = None,
        bgr: bool = False,
        mark: bool = False,
        before: Any = None,
    ) -> Literal["shown", "replaced", "closed"]:
        """Show an array in the pane ``"picture"``: as ``Window.show``, with nobody who could close it."""

    def __getitem__(self, name: str, /) -> Pane:
        """The pane of this name, of 1 to 64 bytes; it appears with its first picture, beside those before it."""

    def image(self) -> Tensor:
        """Draw all panes, and read the picture back. Waits for what was shown so far.

        Returns
        -------
        Tensor
            On the CPU: uint8, height × width × 4, red, green, blue and 255. A copy: what is shown later does not
            change it. Each call is one of ``readbacks``.
        """

    def save(self, path: str | PathLike[str]) -> None:
        """Draw all panes, and write the picture into a file. Waits as ``image`` does.

        Parameters
        ----------
        path
            Its ending says the format: ``.png``, ``.jpg``.

        Raises
        ------
        IoError
            The file cannot be written, or its ending is of no format that is known here.
        """

    def panes(self) -> list[_PaneStatus]:
        """What became of the pictures of each pane, in the order in which they appeared.

        Returns
        -------
        list of dict
            ``name``; ``path``, the way that pictures take; ``shown``, how many were; ``presented``, how many were drawn;
            ``dropped``, how many were passed over by a newer one; ``hidden``, how many came while the pane could not be
            seen; ``host_copies``, how many went through the CPU's memory; ``ended``, why there will be no more, or
            ``None``.
        """

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, in pixels."""

    @property
    def adapter(self) -> str:
        """What draws, and through which interface: ``"NVIDIA H200 (Vulkan)"``."""

    @property
    def readbacks(self) -> int:
        """Pictures that ``image`` and ``save`` copied back from what draws."""

    def __enter__(self) -> Offscreen: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Window:
    """A window, on a thread of its own: no main loop is needed. A process has one at a time, as many after each other as it likes.

    ``while win:`` goes on until the window is closed: by its user (also by the keys ``q`` and ``Esc``), by ``close``, or
    by the end of a ``with`` block. An object that nobody holds any more does not close it.

    Parameters
    ----------
    title
        What its bar says.
    size
        Width and height of its inside, in pixels; if nothing is said, those of the first pictures.
    device
        ``"cuda"``, ``"cuda:1"``: draw on that GPU; ``"cpu"``: on any adapter. If nothing is said: on the first CUDA
        device, if there is one.
    listen
        A name that worker processes can attach by, ``framelane.attach(listen, pane=…)``: 1 to 64 letters, digits,
        ``.``, ``_`` or ``-``.

    Raises
    ------
    NoScreenError
        There is neither an X11 nor a Wayland display that can be reached.
    ArgumentError
        Another window of this process is open, or an argument makes no sense.
    """

    def __new__(
        cls,
        title: str = "framelane",
        *,
        size: tuple[int, int] | None = None,
        device: Any = None,
        listen: str | None = None,
    ) -> Window: ...
    def show(
        self,
        tensor: Any,
        *,
        layout: _Layout | None = None,
        range: tuple[float, float] | None = None,
        colours: _Colours | None = None,
        bgr: bool = False,
        mark: bool = False,
        before: Any = None,
    ) -> Literal["shown", "replaced", "closed"]:
        """Show an array in the pane ``"picture"``.

        Returns as soon as the array may be written again, or dropped: what is shown is what it held when it was given.
        On CUDA that is after the work has been enqueued, on the stream that the array comes with (PyTorch's or CuPy's
        current one, or the one that it names itself): the CPU waits for nothing. An array of the CPU is copied. Never
        waits for the screen: a picture that was not drawn yet is replaced. May be called by several threads.

        Parameters
        ----------
        tensor
            uint8, float16, bfloat16 or float32; height × width, height × width × channels or channels × height × width,
            of 1, 3 or 4 channels; dimensions of 1 before them are passed over. Contiguous or not. Of NumPy, PyTorch,
            CuPy, JAX, or anything with ``__dlpack__``, ``__cuda_array_interface__``, ``__array_interface__`` or the
            buffer protocol.
        layout
            ``"hwc"`` or ``"chw"``, where the shape alone does not say whether channels are last or first.
        range
            The numbers shown as black and as full: (0, 255) for uint8 and (0, 1) for floats if nothing is said. Beyond
            them is as at them.
        colours
            For one channel: ``"grey"``, ``"viridis"`` or ``"turbo"``.
        bgr
            The channels are blue, green, red.
        mark
            Show NaN as magenta, what is above the range as red, and what is below it as blue.
        before
            An array of what ``tensor`` was made of, of its size: a window's user can lay it beside it, by keys and mouse.

        Returns
        -------
        str
            ``"shown"``; ``"replaced"``, if one shown before was not drawn and this one takes its place; ``"closed"``,
            if there is no window any more.

        Raises
        ------
        ArgumentError
            The array cannot be shown: says what came and what is taken.
        UnsupportedError
            It is on a device that is not there.
        """

    def __getitem__(self, name: str, /) -> Pane:
        """The pane of this name, of 1 to 64 bytes; it appears with its first picture, beside those before it."""

    def __bool__(self) -> bool:
        """Whether the window is open."""

    @property
    def closed(self) -> bool:
        """Whether the window is not open any more."""

    def keys(self) -> list[str]:
        """Keys pressed in the window since the last call, the oldest first and 64 at most, also those that do something there.

        Returns
        -------
        list of str
            The text of each key, or the name of one without (``"ArrowLeft"``, ``"Escape"``, ``"Space"``).
        """

    def close(self) -> None:
        """Close the window, and wait until it is gone. Does nothing if it is closed.

        Raises
        ------
        TimeoutError
            The display server does not answer for 5 seconds.
        Error
            What ended the window before.
        """

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the window is closed. ``KeyboardInterrupt`` ends it.

        Parameters
        ----------
        timeout
            At most so many seconds; for ever if nothing is said.

        Returns
        -------
        bool
            Whether it is closed.

        Raises
        ------
        ArgumentError
            ``timeout`` is negative or no number.
        Error
            What ended the window, if it was not closed.
        """

    def status(self) -> _WindowStatus:
        """How the window is doing. Waits for nothing.

        Returns
        -------
        dict
            ``open``; ``size``, width and height in pixels; ``paused`` and ``full_screen``, by its user; ``path``, the
            ways that pictures take; ``drawn``, times that it was drawn; ``readbacks``, pictures copied back to the CPU to
            be drawn; ``panes``, as ``Offscreen.panes`` says.
        """

    @property
    def title(self) -> str:
        """What its bar says."""

    @property
    def adapter(self) -> str:
        """What draws, and through which interface."""

    def __enter__(self) -> Window: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Close the window, as ``close``; an exception that ends the block goes before one of closing."""

@final
class Worker:
    """A pane in another process's window, as ``framelane.attach`` makes it.

    Parameters
    ----------
    window
        The name that the window listens by.
    pane
        What the pane is called there.

    Raises
    ------
    ArgumentError
        ``window`` cannot be a name.
    """

    def __new__(cls, window: str, pane: str = "worker") -> Worker: ...
    def show(
        self,
        tensor: Any,
        *,
        layout: _Layout | None = None,
        range: tuple[float, float] | None = None,
        colours: _Colours | None = None,
        bgr: bool = False,
        mark: bool = False,
    ) -> Literal["shown", "replaced", "dropped", "closed"]:
        """Show an array in the other process's window. The first one attaches, and waits for the window's answer.

        Returns as soon as the array may be written again, as ``Window.show``, with the same arguments. All arrays are of
        the CPU, or of one CUDA device.

        Returns
        -------
        str
            ``"shown"``; ``"replaced"``, if one shown before was not drawn and this one takes its place; ``"dropped"``, if
            the window still holds all memory and this one was passed over; ``"closed"``, if the window is gone or the
            pane was ended.

        Raises
        ------
        ClosedError
            With the first array: no window listens by that name.
        ArgumentError
            The array cannot be shown.
        """

    def settle(self, timeout: float = 1.0) -> int:
        """Wait until it is known what became of each picture that was shown.

        Parameters
        ----------
        timeout
            At most so many seconds.

        Returns
        -------
        int
            Of how many pictures it is not known.
        """

    def end(self, why: str = "") -> None:
        """End the pane.

        Parameters
        ----------
        why
            What the window says of it.
        """

    def __bool__(self) -> bool:
        """Whether pictures can be shown: not once the window is closed or the pane was ended."""

    @property
    def lost(self) -> bool:
        """Whether the window went without a word: it was killed, or crashed."""

    @property
    def path(self) -> str | None:
        """The way that pictures take to the window; ``None`` before the first."""

    def counts(self) -> _WorkerCounts:
        """What became of the pictures.

        Returns
        -------
        dict
            ``shown``, how many were given to the window; ``drawn``, how many of them it drew; ``unseen``, how many it took
            or passed over and did not draw; ``replaced``, how many a newer one took the place of; ``dropped``, how many were
            never given; ``host_copies``, how many went through the CPU's memory. All are 0 once the pane was ended here.
        """

    def __enter__(self) -> Worker: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End the pane; an exception that ends the block is what the window says of it."""

@final
class Slot:
    """What a batch names streams by. There is no constructor."""

    def record_stream(self, stream: Any) -> None:
        """Name another stream that reads the batch: its slot is not written before that one is done, either.

        Parameters
        ----------
        stream
            PyTorch's or CuPy's stream, or its address.
        """

@final
class Feeder:
    """An iterable's batches, on a device: as ``framelane.feed`` makes it, which says what its arguments are.

    Nothing is begun before the first batch is asked for. A loop after the end, and one after an error, begins the
    iterable again, unless it is an iterator, which then has no more to give. A loop that was left early goes on where it
    was.

    ``next`` waits for the next batch without holding the interpreter, and ``KeyboardInterrupt`` ends it. When all slots
    are held by batches that were not let go it warns after 5 seconds, and raises ``BudgetError`` after 60.
    """

    def __new__(
        cls,
        iterable: Iterable[Any],
        device: Any = None,
        *,
        depth: int = 2,
        dtype: Any = None,
        normalize: tuple[list[float], list[float]] | None = None,
        layout: str | None = None,
        budget: int | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> Feeder: ...
    def __iter__(self) -> Feeder: ...
    def __next__(self) -> Any: ...
    def __len__(self) -> int:
        """Batches of one epoch, if the iterable knows; ``TypeError`` otherwise."""

    def stats(self) -> _Stats:
        """What the feed did so far, and what it waited for: nothing, if it was not begun.

        Returns
        -------
        dict
            ``batches``, how many were taken; ``limited_by``, which side is the slowest; seconds that the sides took:
            ``source_s`` (the iterable, and copying into page-locked memory), ``convert_s``, ``copy_s`` (to the device),
            ``device_convert_s``, ``consumer_wait_s`` (the loop waited for batches), ``compute_wait_s`` (the device did),
            ``compute_s``, ``held_back_s`` (the feed waited for the loop), ``wall_s`` (in all); of the device since the
            process began, for all feeds together: ``bytes_to_device``, ``pinned_bytes`` and ``device_bytes`` (allocated
            now); ``text``, all this to be read.
        """

    def state_dict(self) -> _Position:
        """Where the loop is: ``epoch``, and ``batch``, how many of this epoch were taken. Batches on their way do not count."""

    def load_state_dict(self, state: _Position) -> None:
        """Go on where another feed over the same iterable was: its batches before that are taken and not looked at.

        Which epoch it is the iterable has to know by itself (``sampler.set_epoch``).

        Raises
        ------
        ArgumentError
            This feed has begun, or ``state`` lacks ``epoch`` or ``batch``.
        """

    def close(self) -> None:
        """Stop: no more batches; those that are held stay valid. Does nothing if the feed was not begun.

        Raises
        ------
        TimeoutError
            The iterable does not return for a second: its thread is left to end by itself.
        """

    def __enter__(self) -> Feeder: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Stop, as ``close``; an exception that ends the block goes before one of closing."""

def shut_down() -> None:
    """Close the window and stop all feeds: the package has this called when the interpreter ends."""

def counters(device: Any) -> _Counters:
    """What framelane did on a device since the process began. Opens the device if it was not.

    Parameters
    ----------
    device
        ``"cuda"``, ``"cuda:1"`` or ``"cpu"``.

    Returns
    -------
    dict
        Bytes copied ``to_device``, ``from_device`` and ``within`` it; ``copies`` and ``kernels`` enqueued;
        ``pinned_bytes`` and ``device_bytes`` allocated now; ``cpu_waits``, by reason: how often a thread of the CPU waited
        for the device, and how many seconds in all.

    Raises
    ------
    ArgumentError
        ``device`` names none.
    UnsupportedError
        It is not there.
    """

def program(args: list[str]) -> int:
    """The program ``framelane``, with the arguments of a command line of which the first is its name; its exit code.

    Signals to stop are the program's from then on.
    """

def doctor() -> str:
    """What this machine offers, and what would make it better, in lines, as ``framelane doctor`` prints them.

    Screens, graphics adapters, CUDA devices and the way from them to the screen, ONNX Runtime, ffmpeg.
    """

class _Recorded(TypedDict):
    others_to_device: int
    others_from_device: int
    others_copies: int
    copying_s: float
    waiting_s: float
    kernels_s: float
    lost: int

class Recording:
    """What the process does on its GPUs is recorded by CUPTI: ``residency`` is the way to it."""

    def finish(self) -> _Recorded:
        """Stop, wait for the devices, and tell what was copied and what this thread's time went to."""

def record(near: list[str]) -> Recording:
    """Begin to record; ``near`` names files that may be CUPTI.

    Raises
    ------
    UnsupportedError, DeviceError
        CUPTI is not there, or refuses.
    """

class Lent:
    """A thread that is lent to windows: ``framelane.run`` is the way to it."""

    def serve(self) -> bool:
        """Show windows until the thread is taken back. ``False`` if it only looked for signals."""

    def look(self, close: bool) -> None:
        """Have ``serve`` return to look for signals; ``close`` closes the window that is open."""

    def end(self) -> None:
        """Take the thread back. The window that is open is closed."""

def lend() -> Lent | None:
    """Lend this thread to the process's windows; ``None`` if they have a thread already.

    Raises
    ------
    ArgumentError
        Another thread was lent before.
    """
