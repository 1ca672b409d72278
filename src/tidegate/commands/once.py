"""Commands that happen once: an application says who it is and counts, the table remembers how far it came.

The pair of ``txnAppId`` and ``txnVersion`` comes from the options of a write or, where these say nothing,
from the session, which then speaks for DELETE, UPDATE and MERGE too.
Specification: "Transaction Identifiers".
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidegate.commands.options import Options
from tidegate.errors import OptionError
from tidegate.log.actions import Action, Txn
from tidegate.spark import confs
from tidegate.transaction.transaction import Transaction

_APP, _VERSION = "txnAppId", "txnVersion"
_CONFS = {_APP: f"write.{_APP}", _VERSION: f"write.{_VERSION}"}
# Readers of the log take its numbers for longs.
_END = 1 << 63


@dataclass(frozen=True)
class Once:
    """The application and the number that a command goes by, if it has them."""

    spark: SparkSession
    app: str | None = None
    version: int = 0
    from_session: bool = False

    @classmethod
    def of(cls, spark: SparkSession, given: Options | None = None) -> Once:
        """As the options say, or the session; half a pair is refused."""
        said = {n: None if given is None else given.get(n) for n in _CONFS}
        from_session = all(v is None for v in said.values())
        if from_session:
            said = dict(zip(_CONFS, confs.texts(spark, _CONFS.values()), strict=True))
        names = {n: confs.PREFIX + conf if from_session else n for n, conf in _CONFS.items()}
        app, version = said[_APP], said[_VERSION]
        if (app is None) != (version is None):
            raise OptionError(
                f"{names[_APP]} and {names[_VERSION]} go together.",
                hint="Give both of them, or neither.",
                errorClass="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
            )
        if app is None or version is None:
            return cls(spark)
        if not version.strip().removeprefix("-").isdecimal() or not -_END <= int(version) < _END:
            raise OptionError(f"{names[_VERSION]} is {version!r}; it is a whole number of 64 bits.")
        return cls(spark, app, int(version), from_session)

    def is_done(self, transaction: Transaction) -> bool:
        """Whether the table has seen it; the session's number then goes, lest it skip what comes next."""
        if self.app is None:
            return False
        seen = transaction.app_version(self.app)
        done = seen is not None and seen >= self.version
        if done and self.from_session:
            self.spark.conf.unset(confs.PREFIX + _CONFS[_VERSION])
        return done

    def actions(self, transaction: Transaction) -> list[Action]:
        """What the commit says of it."""
        if self.app is None:
            return []
        return [Txn(app_id=self.app, version=self.version, last_updated=transaction.log.clock())]

    def settle(self) -> None:
        """After the commit: where the session asks for it, its number counts for one command alone."""
        if self.from_session and confs.conf(self.spark, "write.txnVersion.autoReset.enabled", False):
            self.spark.conf.unset(confs.PREFIX + _CONFS[_VERSION])
