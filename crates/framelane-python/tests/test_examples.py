"""Each example runs: without a screen, and with one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[3] / "examples" / "python"
EXAMPLES = sorted(path.name for path in HERE.glob("*.py"))


def example(name: str, at: Path, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, str(HERE / name)],
        cwd=at,
        env={**os.environ, "FRAMES": "30", **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_all_are_here() -> None:
    assert EXAMPLES == ["latent_walk.py", "train_feed.py", "webcam_style.py", "workers.py"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_a_screen(name: str, tmp_path: Path) -> None:
    out = example(name, tmp_path, DISPLAY="", WAYLAND_DISPLAY="", WAYLAND_SOCKET="")
    if name == "train_feed.py":
        assert "with feed" in out
        return
    assert "Offscreen" in out, "it says what it does instead"
    (picture,) = tmp_path.glob("*.png")
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "train_feed.py"])
def test_in_a_window(name: str, display: str, tmp_path: Path) -> None:
    out = example(name, tmp_path)
    assert "30" in out
    assert not list(tmp_path.glob("*.png"))
