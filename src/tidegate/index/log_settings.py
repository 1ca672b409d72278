"""The settings of the log of an index table, out of ``spark.indextables.*`` options.

A key may come with or without its prefix and in any case. What a call's options do not say, the session's
confs have been put into them already by whoever has a session; here are the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.index.settings import Settings
from tidegate.index.transaction import WriteRules
from tidegate.log.checkpoint.json_write import ACTIONS_PER_PART

_HOUR = 3_600_000


@dataclass(frozen=True)
class LogSettings:
    """What a caller wants of the log."""

    check_enabled: bool = True
    rules: WriteRules = field(default_factory=WriteRules)
    compression: bool = False
    checkpoint_enabled: bool = True
    checkpoint_interval: int = 10
    # True raises the protocol to version 3 for a checkpoint in parts; None: where the table has it already.
    multipart: bool | None = None
    actions_per_part: int = ACTIONS_PER_PART
    track_skips: bool = True
    cooldown: int = 24 * _HOUR
    split_retention: int = 168 * _HOUR
    log_retention: int = 720 * _HOUR
    retention_check: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str] | None) -> LogSettings:
        """Read the settings; ``OptionError`` names one that makes no sense."""
        s = Settings(options)

        def choice(key: str) -> bool | None:
            return None if s.get(key) is None else s.flag(key, False)

        log_retention = s.number("purge.txLogRetentionHours", 720) * _HOUR
        return cls(
            check_enabled=s.flag("protocol.checkEnabled", True),
            rules=WriteRules(
                auto_upgrade=s.flag("protocol.autoUpgrade", True),
                deduplicate=choice("schemaDeduplication.enabled"),
            ),
            compression=s.flag("transaction.compression.enabled", False),
            checkpoint_enabled=s.flag("checkpoint.enabled", True),
            checkpoint_interval=s.number("checkpoint.interval", 10, least=1),
            multipart=choice("checkpoint.multiPart.enabled"),
            actions_per_part=s.number("checkpoint.actionsPerPart", ACTIONS_PER_PART, least=1),
            track_skips=s.flag("skippedFiles.trackingEnabled", True),
            cooldown=s.number("skippedFiles.cooldownDuration", 24) * _HOUR,
            split_retention=s.number("purge.defaultRetentionHours", 168) * _HOUR,
            log_retention=s.number("logRetention.duration", log_retention),
            retention_check=s.flag("purge.retentionCheckEnabled", True),
        )
