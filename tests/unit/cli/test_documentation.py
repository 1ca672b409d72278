"""What docs/cli.md says of the command line is so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "cli.md").read_text()


def test_every_verb_has_a_section_with_an_example(run: Run, page: str) -> None:
    verbs = re.findall(r"^  ([a-z]+)  ", run("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert len(verbs) >= 13
    for verb in verbs:
        section = page.partition(f"\n## {verb}\n")[2].partition("\n## ")[0]
        assert f"$ tidegate {verb} " in section


def test_every_option_the_page_names_exists(run: Run, page: str) -> None:
    verbs = re.findall(r"^  ([a-z-]+)  ", run("--help").out.partition("Commands:")[2], re.MULTILINE)
    offered = "".join(run(verb, "--help").out for verb in verbs)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) <= set(re.findall(r"--[a-z-]+", offered))


def test_every_code_that_verify_gives_is_explained(root: Path, page: str) -> None:
    given: set[str] = set()
    for module in (root / "src" / "tidegate" / "log" / "verify").glob("*.py"):
        given |= set(re.findall(r"""["']([A-Z]+(?:_[A-Z]+)+)["']""", module.read_text()))
    assert {"DATA_FILE_MISSING", "CHECKSUM_MISMATCH", "LAST_CHECKPOINT"} <= given
    assert [code for code in sorted(given) if f"`{code}`" not in page] == []
