"""What the measurements share: rounds in rotating order, rows that count only if their checks held, tables."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"


@dataclass(frozen=True)
class Measured:
    """What a row found: its figure, and others beside it."""

    value: float
    more: dict[str, float] = field(default_factory=dict)


Row = tuple[str, Callable[[], "float | Measured"]]


class Void(Exception):
    """A row whose check failed: what it did was not the work."""


def rotate(rows: list[Row], rounds: int) -> dict[str, dict[str, Any]]:
    """Run each row once a round, each round beginning with another one: medians, and all that was measured."""
    found: dict[str, list[float]] = {name: [] for name, _ in rows}
    more: dict[str, dict[str, float]] = {}
    void: dict[str, str] = {}
    for turn in range(rounds):
        start = turn % len(rows)
        for name, run in rows[start:] + rows[:start]:
            if name in void:
                continue
            try:
                got = run()
                if isinstance(got, Measured):
                    more[name] = got.more
                    got = got.value
                found[name].append(got)
            except Void as why:
                void[name] = f"void: {why}"
            except Exception as why:  # A peer that is not installed, or does not run here.
                void[name] = f"not run: {type(why).__name__}: {why}".splitlines()[0]
    return {
        name: {"void": void[name]}
        if name in void
        else {"median": statistics.median(times), "all": times, **more.get(name, {})}
        for name, times in found.items()
    }


def machine() -> dict[str, str]:
    import torch

    said = {"python": platform.python_version(), "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}
    if torch.cuda.is_available():
        said["gpu"] = torch.cuda.get_device_name()
        said["cuda"] = str(torch.version.cuda)
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            said["driver"] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
        except (OSError, subprocess.CalledProcessError, IndexError):
            said["driver"] = "unknown: nvidia-smi does not say"
    return said


def table(title: str, rows: dict[str, dict[str, Any]], unit: str, base: str, more: Sequence[str] = ()) -> str:
    """Markdown: each row, how many times that of `base` its figure is, and other figures."""
    against = "times ours" if base == "framelane" else f"times {base}"
    lines = [f"| {title} | {unit} | {against} |" + "".join(f" {name} |" for name in more)]
    lines.append("|---|---|---|" + "---|" * len(more))
    of = rows[base].get("median")
    for name, row in rows.items():
        if "void" in row:
            lines.append(f"| {name} | {row['void']} | |" + " |" * len(more))
            continue
        ratio = f"{row['median'] / of:.2f}" if of else ""
        figure = f"{row['median']:.0f}" if row["median"] >= 1000 else f"{row['median']:.2f}"
        lines.append(f"| {name} | {figure} | {ratio} |" + "".join(f" {row[name]:.0f} |" for name in more))
    return "\n".join(lines)


def arguments(about: str | None, rounds: int) -> argparse.ArgumentParser:
    """What each part can be asked."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def needs_cuda() -> None:
    """End with a sentence where nothing can be measured."""
    try:
        import torch
    except ImportError:
        sys.exit("these measurements need PyTorch: pip install torch, on a machine with an NVIDIA GPU")
    if not torch.cuda.is_available():
        sys.exit("these measurements need a CUDA device, and PyTorch finds none")
    try:
        import framelane  # noqa: F401
    except ImportError:
        sys.exit("these measurements need the package: cargo xtask wheel, and pip install the wheel")


def write(folder: Path, name: str, what: dict[str, Any], tables: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"machine": machine(), **what}, indent=1) + "\n")
    text = "\n\n".join(tables) + "\n"
    (folder / f"{name}.md").write_text(text)
    print(text)
