"""The classes of ``delta.tables`` and ours, read side by side: names, parameters and defaults.

Neither Spark nor delta-spark runs here: what delta-spark's module offers is read from its source.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.delta_spark import delta_spark_home
from tidegate import errors
from tidegate.table.merge import DeltaMergeBuilder

pytestmark = [pytest.mark.peers]

CLASSES = {
    "DeltaTable": tidegate.DeltaTable,
    "DeltaMergeBuilder": DeltaMergeBuilder,
    "DeltaTableBuilder": tidegate.DeltaTableBuilder,
    "DeltaOptimizeBuilder": tidegate.DeltaOptimizeBuilder,
    "IdentityGenerator": tidegate.IdentityGenerator,
}
# Defaults that mean the same: a mutable one would be shared by all calls.
SAME = {"dict()": None}
Parameter = tuple[str, str, Any]


def _source(name: str) -> ast.Module:
    found = sorted(delta_spark_home().glob(f"venv/lib/python3*/site-packages/delta/{name}"))
    return ast.parse(Path(found[-1]).read_text())


def _theirs(class_name: str) -> dict[str, tuple[str, list[Parameter]]]:
    """The public methods of one of their classes: how each is bound, and its parameters."""
    body = next(n.body for n in _source("tables.py").body if getattr(n, "name", None) == class_name)
    out = {}
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        marks = {ast.unparse(d) for d in node.decorator_list}
        if "overload" in marks:
            continue
        out[node.name] = ("class" if "classmethod" in marks else "instance", _parameters(node.args))
    return out


def _parameters(given: ast.arguments) -> list[Parameter]:
    plain = given.args[1:]
    defaults: list[Any] = ["required"] * (len(plain) - len(given.defaults))
    for default in given.defaults:
        text = ast.unparse(default)
        defaults.append(SAME[text] if text in SAME else ast.literal_eval(default))
    out: list[Parameter] = [(a.arg, "plain", d) for a, d in zip(plain, defaults, strict=True)]
    return out + ([] if given.vararg is None else [(given.vararg.arg, "several", "required")])


def _ours(method: Any) -> list[Parameter]:
    out: list[Parameter] = []
    for p in inspect.signature(method).parameters.values():
        if p.name == "self":
            continue
        kind = "several" if p.kind is p.VAR_POSITIONAL else "plain"
        assert p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_OR_KEYWORD), f"{p.name} cannot be given by position"
        out.append((p.name, kind, "required" if p.default is p.empty else p.default))
    return out


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_has_the_same_parameters_and_defaults(name: str) -> None:
    own = CLASSES[name]
    expected = _theirs(name)
    assert name == "IdentityGenerator" or len(expected) >= 3
    found = {
        method: (
            "class" if inspect.ismethod(getattr(own, method)) else "instance",
            _ours(getattr(own, method)),
        )
        for method in expected
        if hasattr(own, method)
    }
    assert found == expected


def test_the_identity_generator_has_the_same_fields() -> None:
    body = next(n for n in _source("tables.py").body if getattr(n, "name", None) == "IdentityGenerator")
    assert isinstance(body, ast.ClassDef)
    fields = [
        (ast.unparse(n.target), ast.literal_eval(n.value))
        for n in body.body
        if isinstance(n, ast.AnnAssign) and n.value is not None
    ]
    assert fields == [("start", 1), ("step", 1)]
    assert [
        (n, p.default) for n, p in inspect.signature(tidegate.IdentityGenerator).parameters.items()
    ] == fields


def test_the_exceptions_have_the_same_names_and_one_parent() -> None:
    names = [n.name for n in _source("exceptions/base.py").body if isinstance(n, ast.ClassDef)]
    assert len(names) >= 8
    for name in names:
        assert name in errors.__all__
        assert issubclass(getattr(errors, name), errors.DeltaConcurrentModificationException)
