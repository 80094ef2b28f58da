"""All of them: `python bench/peers`. Feeding, showing and running from Python, ours beside what people use.

Each part is a program of its own, so that what one leaves behind is not measured by the next. Their results are written to a
folder as JSON and Markdown, and `peers.md` begins with the few ratios that the README has.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import measure

PARTS = ["feed", "show", "run"]
# Minutes in all, to see that everything works; not to be quoted.
QUICK = {
    "feed": ["--ratios", "1", "--rounds", "1"],
    "show": ["--sizes", "1920x1080", "--rounds", "1"],
    "run": ["--nets", "A", "--jobs", "1", "4", "--rounds", "1"],
}


def ratios(title: str, rows: dict[str, Any], peers: list[tuple[str, str]]) -> list[str]:
    """One line for each peer: how many times ours it takes."""
    ours = rows["framelane"].get("median")
    lines = []
    for name, said in peers:
        row = rows.get(name, {"void": "not measured"})
        if "void" in row or not ours:
            lines.append(f"| {title} | {said} | {row.get('void', 'ours is void')} |")
        else:
            lines.append(f"| {title} | {said} | {row['median'] / ours:.2f}× |")
    return lines


def summary(out: Path, parts: list[str]) -> str:
    """The README's table, of what was measured now; empty if none of it was."""
    lines: list[str] = []
    if "show" in parts:
        rows = json.loads((out / "peers-show.json").read_text())["1920x1080"]["rows"]
        peers = [(".cpu(), copy, OpenGL", "`.cpu()`, then a texture of OpenGL")]
        peers += [("pinned copy, OpenGL", "a pinned copy, then a texture of OpenGL")]
        peers += [("Holoviz, headless", "Holoviz, headless"), ("OpenGL interop by hand", "OpenGL interop by hand")]
        lines += ratios("show, 1920 × 1080", rows, peers)
    if "feed" in parts:
        rows = json.loads((out / "peers-feed.json").read_text())["r=1.0"]["rows"]
        peers = [(".cuda()", "`.cuda()`"), ("DataLoader, pinned", "DataLoader, `pin_memory`, `non_blocking`")]
        peers += [("timm PrefetchLoader", "timm's PrefetchLoader"), ("resident (no feed)", "no feed: all on the GPU")]
        lines += ratios("feed, copying as long as computing", rows, peers)
    return "\n".join(["| | beside framelane | takes |", "|---|---|---|", *lines]) if lines else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python bench/peers", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="these parts")
    parser.add_argument("--rounds", type=int, help="of each row; otherwise each part's own number")
    parser.add_argument("--quick", action="store_true", help="few sizes, one round: to see that all works")
    parser.add_argument("--out", type=Path, default=measure.RESULTS)
    asked = parser.parse_args()
    measure.needs_cuda()
    done: list[str] = []
    failed: list[str] = []
    for part in asked.only:
        more = QUICK[part] if asked.quick else []
        if asked.rounds is not None:
            more = [*more, "--rounds", str(asked.rounds)]
        program = [sys.executable, str(Path(__file__).parent / f"{part}.py"), "--out", str(asked.out), *more]
        ended = subprocess.run(program, check=False).returncode
        (failed if ended else done).append(part)
    machine = ", ".join(f"{name} {said}" for name, said in measure.machine().items())
    ours = summary(asked.out, done)
    texts = [f"Measured on: {machine}.", *([ours] if ours else [])]
    texts += [(asked.out / f"peers-{part}.md").read_text().strip() for part in done]
    (asked.out / "peers.md").write_text("\n\n".join(texts) + "\n")
    if ours:
        print(ours)
    if failed:
        sys.exit(f"did not end well: {', '.join(failed)}")


if __name__ == "__main__":
    main()
