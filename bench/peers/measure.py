"""What the measurements share: rounds in rotating order, rows that count only if their checks held, tables."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = tuple[str, Callable[[], float]]


class Void(Exception):
    """A row whose check failed: what it did was not the work."""


def rotate(rows: list[Row], rounds: int) -> dict[str, dict[str, Any]]:
    """Run each row once a round, each round beginning with another one: medians, and all that was measured."""
    found: dict[str, list[float]] = {name: [] for name, _ in rows}
    void: dict[str, str] = {}
    for turn in range(rounds):
        start = turn % len(rows)
        for name, run in rows[start:] + rows[:start]:
            if name in void:
                continue
            try:
                found[name].append(run())
            except Void as why:
                void[name] = f"void: {why}"
            except Exception as why:  # A peer that is not installed, or does not run here.
                void[name] = f"not run: {type(why).__name__}: {why}".splitlines()[0]
    return {
        name: {"void": void[name]} if name in void else {"median": statistics.median(times), "all": times}
        for name, times in found.items()
    }


def machine() -> dict[str, str]:
    import torch

    said = {"python": platform.python_version(), "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}
    if torch.cuda.is_available():
        said["gpu"] = torch.cuda.get_device_name()
        said["cuda"] = str(torch.version.cuda)
    return said


def table(title: str, rows: dict[str, dict[str, Any]], unit: str, ours: str) -> str:
    """Markdown: each row, and how many times ours it takes."""
    lines = [f"| {title} | {unit} | times ours |", "|---|---|---|"]
    base = rows[ours].get("median")
    for name, row in rows.items():
        if "void" in row:
            lines.append(f"| {name} | {row['void']} | |")
        else:
            ratio = f"{row['median'] / base:.2f}" if base else ""
            lines.append(f"| {name} | {row['median']:.2f} | {ratio} |")
    return "\n".join(lines)


def write(folder: Path, name: str, what: dict[str, Any], tables: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"machine": machine(), **what}, indent=1) + "\n")
    text = "\n\n".join(tables) + "\n"
    (folder / f"{name}.md").write_text(text)
    print(text)
