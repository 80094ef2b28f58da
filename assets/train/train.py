#!/usr/bin/env python3
"""Trains the built-in 2x upscaler and writes it as ONNX.

    pip install torch==2.11.0 onnx onnxruntime pillow scikit-image scikit-learn
    assets/train/train.py                         # two to four minutes on a GPU
    assets/train/train.py --steps 300 --batch 16  # a taste: two minutes on two CPU cores

It learns from free photographs that scikit-image and scikit-learn carry (IMAGES below, licences in
../README.md) and is judged on ../heldout, frames of a film of which it has seen nothing.

The small image is made with PyTorch's antialiased bicubic resize, which is Pillow's BICUBIC: the
cubic with a = -0.5, stretched by the factor, normalised at the borders; then rounded to 8 bits.
"""

import argparse
import math
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
SKIMAGE = (
    "astronaut.png brick.png camera.png chelsea.png coffee.png grass.png gravel.png "
    "hubble_deep_field.jpg retina.jpg rocket.jpg text.png"
).split()
SKLEARN = ["china.jpg", "flower.jpg"]
# Each image is used at these sizes: made smaller, a photograph is sharp down to the pixel, as
# rendered frames are.
SIZES = (1.0, 0.7, 0.5)
CROP = 96  # side of the large crops, in pixels


def read_images() -> list[np.ndarray]:
    """The training photographs at every size, each as uint8 [3, height, width]."""
    import skimage
    import sklearn

    folders = (
        (pathlib.Path(skimage.__file__).parent / "data", SKIMAGE),
        (pathlib.Path(sklearn.__file__).parent / "datasets" / "images", SKLEARN),
    )
    images = []
    for folder, names in folders:
        for name in names:
            whole = Image.open(folder / name).convert("RGB")
            for size in SIZES:
                shape = (round(whole.width * size), round(whole.height * size))
                if min(shape) < CROP:
                    continue
                sized = whole if size == 1.0 else whole.resize(shape, Image.Resampling.BICUBIC)
                images.append(np.asarray(sized).transpose(2, 0, 1))
    return images


class Crops:
    """Endless random crops, flipped and turned, cut on the device that trains."""

    def __init__(self, images: list[np.ndarray], device: str, seed: int):
        self.pixels = torch.cat([torch.tensor(i).flatten(1) for i in images], 1).to(device)
        shapes = torch.tensor([i.shape[1:] for i in images])
        areas = shapes.prod(1)
        self.start = (areas.cumsum(0) - areas).to(device)
        self.shapes = shapes.to(device)
        self.odds = areas.double().sqrt().float().to(device)  # the large ones more often, a little
        self.random = torch.Generator(device).manual_seed(seed)
        self.side = torch.arange(CROP, device=device)

    def batch(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """`count` pairs in 0..1: small [count, 3, CROP/2, CROP/2] and large [count, 3, CROP, CROP]."""
        which = torch.multinomial(self.odds, count, replacement=True, generator=self.random)
        dice = torch.rand(5, count, 1, 1, generator=self.random, device=self.odds.device)
        height, width = (self.shapes[which, axis].view(-1, 1, 1) for axis in (0, 1))
        y, x = self.side.view(1, -1, 1), self.side.view(1, 1, -1)
        y = torch.where(dice[0] < 0.5, y, CROP - 1 - y)
        x = torch.where(dice[1] < 0.5, x, CROP - 1 - x)
        y, x = torch.where(dice[2] < 0.5, y, x), torch.where(dice[2] < 0.5, x, y)
        y = y + (dice[3] * (height - CROP + 1)).long()
        x = x + (dice[4] * (width - CROP + 1)).long()
        large = self.pixels[:, self.start[which].view(-1, 1, 1) + y * width + x]
        large = large.transpose(0, 1).float() / 255
        return halve(large), large


def halve(large: torch.Tensor) -> torch.Tensor:
    """Half as large by antialiased bicubic, at 8 bits."""
    small = F.interpolate(large, scale_factor=0.5, mode="bicubic", antialias=True)
    return (small.clamp(0, 1) * 255).round() / 255


class Conv(nn.Module):
    """A 3x3 convolution that trains as wide 3x3, narrow 1x1, plus identity, and runs as one.

    Nothing bends between the two, so their product is a single kernel: it is made at each step, and
    written out at the end. The detour costs nothing later and finds better weights than the short
    way (Bhardwaj et al., Collapsible Linear Blocks for Super-Efficient Super Resolution, 2022).
    """

    def __init__(self, inputs: int, outputs: int, wide: int = 128):
        super().__init__()
        self.expand = nn.Parameter(torch.empty(wide, inputs, 3, 3))
        self.project = nn.Parameter(torch.empty(outputs, wide))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.expand, std=math.sqrt(2 / (9 * inputs)))
        nn.init.normal_(self.project, std=math.sqrt(1 / wide))
        identity = torch.zeros(outputs, inputs, 3, 3)
        if inputs == outputs:
            identity[range(outputs), range(outputs), 1, 1] = 1
        self.register_buffer("identity", identity)

    def kernel(self) -> torch.Tensor:
        return torch.einsum("ow,wiyx->oiyx", self.project, self.expand) + self.identity


class Upscaler(nn.Module):
    """A linear interpolator (5x5) plus a correction from four 3x3 layers, all at the small size.

    The image is padded by two of its edge pixels once; the interpolator and the first two layers
    use that border up, so the image's own borders are not darkened.
    """

    def __init__(self, width: int):
        super().__init__()
        # Starts as "repeat the pixel": output channel 4c + 2y + x is colour c of sub-pixel (y, x).
        skip = torch.zeros(12, 3, 5, 5)
        skip[range(12), [c // 4 for c in range(12)], 2, 2] = 1
        self.skip = nn.Parameter(skip)
        widths = [3, width, width, width, 12]
        self.layers = nn.ModuleList(Conv(i, o) for i, o in zip(widths, widths[1:]))
        with torch.no_grad():
            self.layers[-1].project.mul_(0.1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        padded = F.pad(image, (2, 2, 2, 2), mode="replicate")
        x = padded
        for index, layer in enumerate(self.layers):
            x = F.conv2d(x, layer.kernel(), layer.bias, padding=0 if index < 2 else 1)
            if index < len(self.layers) - 1:
                x = F.relu(x)
        return F.pixel_shuffle(x + F.conv2d(padded, self.skip), 2)


def train(net: Upscaler, crops: Crops, steps: int, batch: int) -> None:
    """Adam, cosine learning rate; Charbonnier loss, then squared error for the last fifth."""
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=1e-6)
    began = time.monotonic()
    for step in range(1, steps + 1):
        small, large = crops.batch(batch)
        error = net(small) - large
        if step <= 0.8 * steps:
            loss = (error.square() + 1e-6).sqrt().mean()
        else:
            loss = error.square().mean() * 20
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % max(1, steps // 20) == 0:
            decibels = -10 * math.log10(error.detach().square().mean().item())
            print(f"step {step}: {decibels:.2f} dB, {time.monotonic() - began:.0f} s", flush=True)


def to_onnx(net: Upscaler) -> onnx.ModelProto:
    """The trained network as eleven ONNX nodes, for any height and width."""
    nodes, weights = [], []

    def constant(name: str, value: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(value, name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def floats(name: str, value: torch.Tensor) -> str:
        return constant(name, value.detach().cpu().float().numpy())

    pads = constant("border", np.array([0, 0, 2, 2, 0, 0, 2, 2], np.int64))
    padded = node("Pad", ["image", pads], "padded", mode="edge")
    skip = node("Conv", [padded, floats("skip_weight", net.skip)], "skip", kernel_shape=[5, 5])
    x = padded
    for index, layer in enumerate(net.layers):
        inputs = [x, floats(f"weight{index}", layer.kernel()), floats(f"bias{index}", layer.bias)]
        around = [0 if index < 2 else 1] * 4
        x = node("Conv", inputs, f"conv{index}", kernel_shape=[3, 3], pads=around)
        if index < len(net.layers) - 1:
            x = node("Relu", [x], f"relu{index}")
    x = node("Add", [x, skip], "subpixels")
    node("DepthToSpace", [x], "upscaled", blocksize=2, mode="CRD")

    def image(name: str, height: str, width: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, height, width])

    graph = helper.make_graph(
        nodes,
        "upscale",
        [image("image", "height", "width")],
        [image("upscaled", "2*height", "2*width")],
        weights,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
        producer_name="framelane assets/train/train.py",
        doc_string="Doubles the height and width of an RGB image. Clamp the result to 0..1.",
    )
    helper.set_model_props(
        model,
        {
            "framelane.input_range": "0-1",
            "framelane.output": "image",
            "framelane.output_range": "0-1",
            "framelane.task": "image-to-image",
            "author": "the framelane authors",
            "license": "MIT OR Apache-2.0",
        },
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Of two 8-bit RGB images, without a border of four pixels."""
    error = a[4:-4, 4:-4].astype(np.float64) - b[4:-4, 4:-4]
    return 10 * math.log10(255**2 / np.mean(error**2))


def judge(net: Upscaler, model: onnx.ModelProto) -> None:
    """Prints PSNR on the held-out frames, and stops if ONNX Runtime and torch differ."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    gains = []
    for path in sorted((HERE.parent / "heldout").glob("*_low.png")):
        low, high, bicubic = (
            np.asarray(Image.open(str(path).replace("_low", kind)).convert("RGB"))
            for kind in ("_low", "_high", "_bicubic")
        )
        tensor = np.ascontiguousarray(low.transpose(2, 0, 1)[None], np.float32) / np.float32(255)
        out = session.run(["upscaled"], {"image": tensor})[0]
        with torch.no_grad():
            same = net(torch.tensor(tensor)).numpy()
        if np.abs(out - same).max() > 1e-4:
            sys.exit("ONNX Runtime and torch disagree: the export is wrong")
        image = np.rint(out[0].transpose(1, 2, 0).clip(0, 1) * 255).astype(np.uint8)
        ours, theirs = psnr(image, high), psnr(bicubic, high)
        gains.append(ours - theirs)
        print(f"{path.stem[:-4]}: network {ours:.2f} dB, bicubic {theirs:.2f} dB")
    print(f"mean gain {np.mean(gains):.2f} dB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the built-in upscaler.")
    parser.add_argument("--steps", type=int, default=25_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=16, help="channels of the hidden layers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "upscale.onnx")
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    # The same numbers from the same seed on the same machine: full floats, fixed algorithms.
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    versions = [f"{m.__name__} {m.__version__}" for m in (torch, onnx, onnxruntime, np)]
    print(", ".join(versions), f"Pillow {Image.__version__}", device, vars(args))

    crops = Crops(read_images(), device, args.seed)
    net = Upscaler(args.width).to(device)
    train(net, crops, args.steps, args.batch)
    net = net.cpu().eval()
    model = to_onnx(net)
    args.out.write_bytes(model.SerializeToString())
    parameters = sum(math.prod(w.dims) for w in model.graph.initializer if w.data_type == 1)
    print(f"{args.out.name}: {parameters} parameters, {args.out.stat().st_size} bytes")
    judge(net, model)


if __name__ == "__main__":
    main()
