"""What the tests share: programs of their own, a screen, and the threads of a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# They bring a screen of their own; windows of tests on somebody's would be in their way, and he in theirs.
for _screen in ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"):
    os.environ.pop(_screen, None)

# Without it graphics drivers complain on standard error, for which programs here are failed.
if not os.environ.get("XDG_RUNTIME_DIR"):
    _folder = tempfile.TemporaryDirectory(prefix="framelane-tests-")
    os.environ["XDG_RUNTIME_DIR"] = _folder.name


def run(code: str, *args: str, timeout: float = 20, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of its own. One that hangs is killed, with all that it started, and fails the test."""
    program = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    try:
        out, err = program.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, 9)
        out, err = program.communicate()
        pytest.fail(f"the program hung for {timeout} s; it printed:\n{out}\n{err}")
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


def passes(code: str, *args: str, timeout: float = 20, env: dict[str, str] | None = None) -> str:
    """What a program of its own printed, which must end well and complain of nothing."""
    done = run(code, *args, timeout=timeout, env=env)
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout


def until(what: Callable[[], object], limit: float = 10) -> None:
    """Wait until something that another thread or process does is done, and fail if it never is."""
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, f"not within {limit} s"
        time.sleep(0.005)


def threads() -> int:
    """Threads of this process, native ones too."""
    return len(os.listdir("/proc/self/task"))


@pytest.fixture(scope="session")
def screen() -> Iterator[str]:
    """A display to open windows on, which is named in ``DISPLAY`` while tests run."""
    server = shutil.which("Xvfb")
    if server is None:
        pytest.skip("no Xvfb here: install xvfb for the tests of windows")
    read, write = os.pipe()
    with subprocess.Popen(
        [server, "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    ) as program:
        os.close(write)
        with os.fdopen(read) as said:
            number = said.readline().strip()
        if not number:
            pytest.skip("Xvfb does not start here")
        yield f":{number}"
        program.terminate()


@pytest.fixture
def display(screen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Windows of this process, and of those that it starts, open on a virtual screen."""
    monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_SOCKET", raising=False)
    return screen


@pytest.fixture
def press(display: str) -> Callable[..., None]:
    """Press keys in the window of a title."""
    tool = shutil.which("xdotool")
    if tool is None:
        pytest.skip("no xdotool here: install it for the tests of keys")

    def press(title: str, *keys: str) -> None:
        found = subprocess.run(
            [tool, "search", "--sync", "--name", title], capture_output=True, text=True, timeout=10, check=True
        )
        window = found.stdout.split()[0]
        subprocess.run([tool, "windowfocus", window], capture_output=True, timeout=10, check=False)
        subprocess.run([tool, "key", *keys], timeout=10, check=True)

    return press
