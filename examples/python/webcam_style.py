"""A moving picture and what a filter makes of it: as two panes, and under one divider that can be moved.

    python examples/python/webcam_style.py

The picture stands for a camera's. Press `b` for the divider. Without a screen the last picture is written to a file.
`FRAMES=30` ends it there.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

import framelane as fl

HEIGHT, WIDTH = 240, 320


def camera(frame: int) -> NDArray[np.uint8]:
    """Discs that move before a gradient: uint8, height × width × 3."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    image = np.stack([x / WIDTH * 255, y / HEIGHT * 255, 128 + 0 * x], axis=-1)
    for k, colour in enumerate([(255, 80, 60), (60, 220, 90), (70, 110, 255)]):
        angle = frame * 0.05 + k * 2.1
        inside = np.hypot(x - WIDTH / 2 - 90 * np.cos(angle), y - HEIGHT / 2 - 70 * np.sin(angle)) < 36
        image[inside] = colour
    return image.astype(np.uint8)


def style(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Few colours, with dark edges: float32, height × width × 3, from 0 to 1."""
    light = image.astype(np.float32) / 255
    down, right = np.diff(light, axis=0, append=light[-1:]), np.diff(light, axis=1, append=light[:, -1:])
    edge = np.abs(down).sum(axis=2, keepdims=True) + np.abs(right).sum(axis=2, keepdims=True)
    styled: NDArray[np.float32] = np.round(light * 4) / 4 * (edge < 0.3)
    return styled


def show(display: fl.Window | fl.Offscreen, frame: int) -> None:
    image = camera(frame)
    styled = style(image)
    display["camera"].show(image)
    display["style"].show(styled, before=image)


def main() -> None:
    frames = int(os.environ.get("FRAMES", "0"))
    try:
        with fl.Window("style") as win:
            frame = 0
            while win and not (frames and frame == frames):
                show(win, frame)
                frame += 1
            for pane in win.status()["panes"]:
                print(f"{pane['name']}: {pane['presented']} of {frame} frames were drawn, by {pane['path']}")
    except fl.NoScreenError as error:
        print(error)
        display = fl.Offscreen(2 * WIDTH, HEIGHT)
        for frame in range(frames or 100):
            show(display, frame)
        display.save("webcam_style.png")
        print("webcam_style.png is the last frame")


if __name__ == "__main__":
    # macOS demands that windows are the main thread's: this lends it to them, and calls main on another one.
    fl.run(main)
