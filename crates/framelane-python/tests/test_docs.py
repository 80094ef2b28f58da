"""What `help` says is what editors show: the texts of the native part are those of its stub."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import framelane as fl
from framelane import _native

STUB = ast.parse((Path(_native.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))


def members() -> list[tuple[str, ast.ClassDef | ast.FunctionDef, Any]]:
    """Each public class, method, property and function of the stub, with what it describes."""
    found: list[tuple[str, ast.ClassDef | ast.FunctionDef, Any]] = []
    for node in STUB.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
            continue
        described = getattr(_native, node.name)
        found.append((node.name, node, described))
        for member in node.body if isinstance(node, ast.ClassDef) else []:
            # What Python asks of classes has Python's words, or none.
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                name = f"{node.name}.{member.name}"
                found.append((name, member, inspect.getattr_static(described, member.name)))
    return found


@pytest.mark.parametrize("name, node, described", [pytest.param(*found, id=found[0]) for found in members()])
def test_the_stub_and_help_agree(name: str, node: ast.ClassDef | ast.FunctionDef, described: Any) -> None:
    wanted, said = ast.get_docstring(node), inspect.getdoc(described)
    assert wanted, f"{name} has no text in the stub"
    assert said == wanted


def test_all_that_is_exported_says_what_it_is() -> None:
    for name in fl.__all__:
        if name != "__version__":
            assert inspect.getdoc(getattr(fl, name)), name


def test_the_stub_has_all_there_is() -> None:
    in_stub = {name for name, _, _ in members()}
    for name, value in vars(_native).items():
        if name.startswith("_"):
            continue
        assert name in in_stub
        if isinstance(value, type) and not issubclass(value, Exception):
            for member in vars(value):
                assert member.startswith("__") or f"{name}.{member}" in in_stub, f"{name}.{member}"
