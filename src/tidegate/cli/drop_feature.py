"""``tidegate drop-feature``: take a feature out of a table; the plan first, then the work.

Spark is started only if data files must be rewritten, and only once the plan has been shown.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, StorageOptions, Table, Verbose, table_log
from tidegate.cli.patience import Patience
from tidegate.commands.drop_feature import Plan, Rewriter, drop_feature, plan
from tidegate.commands.drop_feature.protected import duration
from tidegate.commands.features import describe
from tidegate.errors import FeatureInUseError
from tidegate.log.snapshot import unguarded

Name = Annotated[str, typer.Argument(metavar="NAME", help="The feature to drop.", show_default=False)]
Truncate = Annotated[
    bool,
    typer.Option(
        "--truncate-history",
        help="Remove the history that shows the feature, which takes two runs and a day between them.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and do nothing.", show_default=False)]


@verb
def command(
    table: Table,
    name: Name,
    truncate_history: Truncate = False,
    dry_run: DryRun = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Take a feature away, so that clients without it come in.

    Prints the plan first: commits, checkpoints, files and bytes to rewrite, how long to wait. Versions from
    before the drop stay readable for clients that know the feature, and are refused to others.
    """
    log = table_log(table, storage_option)
    with Patience("reading the log"):
        before = unguarded(log)
        found = plan(before, name, truncate=truncate_history)
    facts = _facts(found, before.url, before.version)
    if dry_run:
        _print(facts, found, json)
        return 0
    if not json:
        _show(facts, found)
    with Patience("dropping the feature") as bar:
        done = drop_feature(
            log,
            name,
            truncate_history=truncate_history,
            rewriter=_rewriter(found),
            progress=bar,
        )
    facts |= {"dropped": True, "version": done.version, **done.snapshot.protocol.to_wire()}
    if json:
        screen.document(facts)
    else:
        screen.line()
        screen.line(f"Version {done.version} has dropped {found.feature}.", "bold green")
    return 0


def _rewriter(found: Plan) -> Rewriter | None:
    """Spark, where files must be rewritten."""
    if not found.needs_spark:
        return None
    try:
        import tidegate
        from tidegate.commands.drop_feature.rewriting import spark_rewriter
    except ImportError as e:
        raise FeatureInUseError(
            f"{found.files} files must be rewritten, which needs Spark, and it is not installed.",
            hint='pip install "tidegate[spark]"',
        ) from e
    return spark_rewriter(tidegate.enable(tidegate.session()))


def _facts(found: Plan, url: str, version: int) -> dict[str, Any]:
    return {
        "table": url,
        "version": version,
        "feature": found.feature,
        "truncateHistory": found.truncate,
        "dropped": False,
        "plan": {
            "commits": found.commits,
            "checkpoints": found.checkpoints,
            "filesToRewrite": found.files,
            "bytesToRewrite": found.bytes,
            "waitMilliseconds": found.wait,
            "steps": list(found.steps),
            "protocol": found.protocol.to_wire(),
        },
    }


def _print(facts: dict[str, Any], found: Plan, json: bool) -> None:
    if json:
        screen.document(facts)
    else:
        _show(facts, found)


def _show(facts: dict[str, Any], found: Plan) -> None:
    screen.fields(
        [
            ("table", facts["table"]),
            ("version", facts["version"]),
            ("feature", found.feature),
            ("takes", describe(found)),
            ("to rewrite", f"{screen.plural(found.files, 'file')}, {screen.size(found.bytes)}"),
            ("wait", duration(found.wait) if found.wait else "none"),
            ("protocol then", str(found.protocol).removeprefix("protocol ")),
        ]
    )
    screen.line()
    for number, step in enumerate(found.steps, 1):
        screen.line(f"{number}. {step}")
