"""``tidegate shell``: a prompt for SQL, with history and completion. One Spark for the whole of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli import screen
from tidegate.cli.failure import COULD_NOT, tell, verb
from tidegate.cli.options import Verbose
from tidegate.cli.patience import Patience
from tidegate.cli.sql import SHOWN, answered, run, show, started
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from prompt_toolkit.history import History
    from pyspark.sql import SparkSession

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
    """A prompt for SQL.

    Statements end with a semicolon; `exit`, or Ctrl-D, ends the shell. Tab completes words and names,
    the arrows bring back what was typed, also of earlier days. From a pipe it runs what it is given,
    and its exit code is 2 if a statement could not be done.
    """
    with Patience("starting Spark"):
        spark = started("The shell")
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        screen.line("SQL with Delta's statements. A statement ends with ; and the shell with exit.")
    failed = False
    try:
        for statement in statements(_reader(lambda: [*WORDS, *_names(spark)])):
            try:
                show(*answered(run(spark, statement), SHOWN + 1), SHOWN)
            except TidegateError as e:
                failed = True
                tell(e, as_json=False)
    finally:
        spark.stop()
    return COULD_NOT if failed and not at_terminal else 0


def _names(spark: SparkSession) -> list[str]:
    """The tables and databases that there are now."""
    tables = [t.name for t in spark.catalog.listTables()]
    return tables + [d.name for d in spark.catalog.listDatabases()]


def statements(read: Callable[[str], str]) -> Iterator[str]:
    """The statements that are typed, each without its semicolon, to the end of input or ``exit``."""
    from tidegate.sql.script import is_blank, split

    left = ""
    while True:
        try:
            line = read(PROMPT if is_blank(left) else MORE)
        except KeyboardInterrupt:
            left = ""
            continue
        except EOFError:
            if not is_blank(left):
                yield left.strip()
            return
        if is_blank(left) and line.strip().lower().rstrip("; ") in ("exit", "quit"):
            return
        done, left = split(f"{left}\n{line}" if left else line)
        yield from done


def _reader(words: Callable[[], list[str]]) -> Callable[[str], str]:
    """How a line is read: with history and completion at a terminal, plainly from a pipe."""
    if not sys.stdin.isatty():
        return _plain
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter

    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=WordCompleter(words, ignore_case=True, sentence=False),
        complete_while_typing=False,
    )
    return session.prompt


def _history() -> History:
    """What was typed on earlier days; where nothing can be kept, of this day alone."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    place = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tidegate"
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / "history").touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(place / "history"))


def _plain(prompt: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
