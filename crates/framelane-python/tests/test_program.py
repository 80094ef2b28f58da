"""The program that comes with the package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import framelane as fl


def framelane(*args: str, **how: Any) -> subprocess.CompletedProcess[str]:
    # At home nowhere: nothing of the project's own files is to be needed.
    program = [sys.executable, "-m", "framelane", *args]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False, **how)


def test_it_says_its_version() -> None:
    done = framelane("--version")
    assert (done.returncode, done.stdout) == (0, f"framelane {fl.__version__}\n")


def test_doctor_says_the_same_in_both() -> None:
    said = fl.doctor()
    assert "This machine has" in said and "CUDA" in said and "ffmpeg" in said
    done = framelane("doctor")
    assert done.returncode == 0
    assert done.stdout.strip() == said.strip()


def test_it_plays(tmp_path: Path) -> None:
    done = framelane("play", "testsrc:64x36@30", "--frames", "5", "--to", "pictures/", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pictures = sorted((tmp_path / "pictures").iterdir())
    assert len(pictures) == 5
    # Upscaled twice by the network that it brings along.
    assert np.frombuffer(pictures[0].read_bytes()[16:24], ">u4").tolist() == [128, 72]


def test_what_is_wrong_is_one_sentence_and_a_code() -> None:
    done = framelane("play", "nothing.mp4")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["framelane: nothing.mp4 cannot be opened: No such file or directory (os error 2)"]
    assert framelane("--nonsense").returncode == 2


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "framelane", "play", "testsrc:64x36@30", "--to", "pictures/"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        while not list(tmp_path.glob("pictures/*")):
            assert program.poll() is None
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=30)
    finally:
        program.kill()
    assert "wrote       pictures/" in err + out
    assert "Traceback" not in err, err
    assert program.returncode == 130
