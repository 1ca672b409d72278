"""``tidegate shell``: a prompt for SQL, with history and completion. One Spark for the whole of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.cli import screen
from tidegate.cli.failure import tell, verb
from tidegate.cli.options import Verbose
from tidegate.cli.patience import Patience
from tidegate.cli.sql import SHOWN, run, show, started
from tidegate.errors import TidegateError

# What can be completed beside the names of tables.
_TEXT = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN ON VALUES WITH AS INSERT INTO OVERWRITE "
    "REPLACE UPDATE SET DELETE TRUNCATE TABLE MERGE USING WHEN MATCHED NOT SOURCE THEN CREATE "
    "OR SHALLOW CLONE delta PARTITIONED CLUSTER TBLPROPERTIES LOCATION ALTER ADD COLUMNS COLUMN "
    "RENAME DROP CONSTRAINT CHECK FEATURE DESCRIBE HISTORY DETAIL SHOW PARTITIONS TABLES "
    "OPTIMIZE ZORDER VACUUM RETAIN HOURS DRY RUN RESTORE VERSION TIMESTAMP OF CONVERT TO "
    "GENERATE REORG APPLY PURGE table_changes exit"
)
WORDS = tuple(_TEXT.split(" "))
PROMPT, MORE = "tidegate> ", "     ...> "


@verb
def command(verbose: Verbose = False) -> int:
    """A prompt for SQL: statements end with a semicolon; `exit`, or Ctrl-D, ends the shell.

    Tab completes words and names, the arrows bring back what was typed, also of earlier days.
    """
    with Patience("starting Spark"):
        spark = started("The shell")
    screen.line("SQL with Delta's statements. A statement ends with ; and the shell with exit.")
    try:
        names = [t.name for t in spark.catalog.listTables()]
        for statement in statements(_reader([*WORDS, *names])):
            try:
                frame = run(spark, statement)
                rows = [tuple(r) for r in frame.limit(SHOWN + 1).collect()] if frame.columns else []
                show(frame.columns, rows, SHOWN)
            except TidegateError as e:
                tell(e, as_json=False)
    finally:
        spark.stop()
    return 0


def statements(read: Callable[[str], str]) -> Iterator[str]:
    """The statements that are typed, each without its semicolon, to the end of input or ``exit``."""
    lines: list[str] = []
    while True:
        try:
            line = read(MORE if lines else PROMPT)
        except KeyboardInterrupt:
            lines = []
            continue
        except EOFError:
            return
        if not lines and line.strip().lower().rstrip(";") in ("exit", "quit"):
            return
        if line.strip() or lines:
            lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines).rstrip().rstrip(";")
            lines = []


def _reader(words: list[str]) -> Callable[[str], str]:
    """How a line is read: with history and completion at a terminal, plainly from a pipe."""
    if not sys.stdin.isatty():
        return _plain
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    place = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "tidegate"
    place.mkdir(parents=True, exist_ok=True)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(place / "history")),
        completer=WordCompleter(words, ignore_case=True, sentence=False),
        complete_while_typing=False,
    )
    return session.prompt


def _plain(prompt: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
