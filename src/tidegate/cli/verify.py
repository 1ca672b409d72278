"""``tidegate verify``: prove the log, and say what is wrong where."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from tidegate.cli import screen
from tidegate.cli.failure import FOUND, verb
from tidegate.cli.options import (
    Dialect,
    Json,
    StorageOptions,
    Table,
    Timestamp,
    Verbose,
    Version,
    table_log,
    version_of,
)
from tidegate.cli.patience import Patience
from tidegate.log.verify import Finding, Report
from tidegate.log.verify import verify as prove


@verb
def command(
    table: Table,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also open every data file (footer, number of rows) and decode every deletion vector.",
            show_default=False,
        ),
    ] = False,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="Look at the log alone, not for data files.", show_default=False)
    ] = False,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Prove the log, and say what is wrong where.

    Commits are contiguous and legal; checkpoints, checksums and compactions equal the replay of the commits;
    every live data file and deletion vector is there with its recorded size.

    Exit code 1 if an error was found. A warning is about something optional, which readers get round:
    it does not change the exit code.
    """
    if deep and no_data:
        raise typer.BadParameter("--deep looks into data files, --no-data leaves them out")
    began = time.monotonic()
    log = table_log(table, storage_option, dialect)
    with Patience("listing the log") as bar:
        upto = version_of(table, version, timestamp, storage_option, dialect)
        report = prove(log, version=upto, deep=deep, data=not no_data, progress=bar)
    if json:
        screen.document(facts(report))
    else:
        _show(report, time.monotonic() - began, data=not no_data)
    return 0 if report.ok else FOUND


def facts(report: Report) -> dict[str, Any]:
    """The report in the form of its JSON."""
    return {
        "table": report.table,
        "version": report.version,
        "ok": report.ok,
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "checked": {_camel(name): n for name, n in asdict(report.checked).items()},
        "findings": [asdict(f) for f in report.findings],
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _show(report: Report, seconds: float, *, data: bool) -> None:
    screen.fields(
        [
            ("table", report.table),
            ("version", report.version),
            *((name, value) for name, value in _checked(report, data=data)),
            ("took", f"{seconds:.1f} s"),
        ]
    )
    screen.line()
    if report.findings:
        screen.rows(
            ["", "code", "version", "file", "what is wrong"],
            [_row(f) for f in report.findings],
            right=["version"],
            fold=["file", "what is wrong"],
        )
        screen.line()
    warnings = screen.plural(len(report.warnings), "warning")
    if not report.ok:
        screen.line(f"Found {screen.plural(len(report.errors), 'error')} and {warnings}.", "bold red")
    elif report.warnings:
        screen.line(f"The table is sound; {warnings}.", "bold yellow")
    else:
        screen.line("The table is sound.", "bold green")


def _checked(report: Report, *, data: bool) -> list[tuple[str, str]]:
    c = report.checked
    out = [("commits", f"{screen.number(c.commits)}, with {screen.number(c.file_actions)} file actions")]
    for name, proven, unproven in (
        ("checkpoints", c.checkpoints, c.checkpoints_unproven),
        ("checksums", c.checksums, c.checksums_unproven),
        ("compactions", c.compactions, c.compactions_unproven),
    ):
        text = f"{screen.number(proven)} compared with replay"
        if unproven:
            text += f", {screen.number(unproven)} with nothing older to compare with"
        if proven or unproven:
            out.append((name, text))
    if data:
        out.append(("data files", screen.number(c.data_files)))
        if c.deletion_vectors:
            out.append(("deletion vectors", screen.number(c.deletion_vectors)))
    if c.drops:
        out.append(
            (
                "drops",
                f"{screen.plural(c.drops, 'version')} dropped features, behind checkpoints that hide them",
            )
        )
    if c.protected:
        out.append(("protected", f"{screen.plural(c.protected, 'version')} before the boundary"))
    if c.footers:
        out.append(("opened", screen.plural(c.footers, "data file")))
    return out


def _row(finding: Finding) -> tuple[Any, ...]:
    style = "red" if finding.severity == "error" else "yellow"
    return (
        Text(finding.severity, style=style),
        finding.code,
        finding.version,
        finding.file,
        finding.message,
    )
