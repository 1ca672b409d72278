"""The cases that delta-spark tests of cleanups under checkpoint protection, with their outcomes here.

Sixteen commits, the first of them expired, a checkpoint of version 10 as a writer makes it by itself. A new
start must have expired itself here, as the specification's "Metadata Cleanup" has it (delta-spark is content
with expired commits before it); so one version more has expired in these cases than in theirs. Where the
outcome is another one than delta-spark's, the case says which requirement makes it stricter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from support.features import checkpoints, commits
from support.tables import DAY, HOUR, LOG, RawTable, Wire, add, features, metadata
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA

BASE = ("appendOnly", "checkpointProtection", "invariants")
PLAIN = features("v2Checkpoint", writers=BASE)
FOR_READING = features("deletionVectors", "v2Checkpoint", writers=BASE)
FOR_WRITING = features("v2Checkpoint", writers=[*BASE, "domainMetadata"])
OLD = DELTA.without(["deletionVectors", "domainMetadata"])


@dataclass(frozen=True)
class Case:
    """One log, what has expired of it, and what is left: the first commit and the checkpoints."""

    boundary: int
    checkpoints: tuple[int, ...]
    expired: int
    first: int
    left: tuple[int, ...]
    unsupported: tuple[int, int] | None = None
    binds: Wire = field(default_factory=lambda: FOR_READING)
    versions: int = 16
    no_checksum: int | None = None
    poor_checksum: int | None = None
    every_protocol_known: bool = True


CASES = {
    # Everything below the boundary goes at once: to the newest checkpoint that has expired.
    "boundary 2, checkpoint 8": Case(2, (6, 8), 8, 8, (8, 10)),
    "boundary 6, checkpoint 8": Case(6, (6, 8), 8, 8, (8, 10)),
    "boundary 7, checkpoint 8": Case(7, (6, 8), 8, 8, (8, 10)),
    "boundary 8, checkpoint 8": Case(8, (6, 8), 8, 8, (8, 10)),
    "boundary 9, checkpoint 10": Case(9, (6, 8), 10, 10, (10,), versions=20),
    "boundary 8, younger checkpoints": Case(8, (6, 8, 12, 14), 8, 8, (8, 10, 12, 14)),
    "boundary 0, one version": Case(0, (1,), 1, 1, (1, 10)),
    "boundary 1, one version": Case(1, (1,), 1, 1, (1, 10)),
    # The same with a feature that is not supported: all of it in one go asks for no protocol.
    "boundary 8, unsupported below": Case(8, (6, 8), 8, 8, (8, 10), unsupported=(0, 8)),
    # Beyond what has expired, with protocols that are not supported: nothing goes.
    "boundary 9 has not expired": Case(9, (6, 8), 8, 0, (6, 8, 10), unsupported=(2, 3)),
    "boundary 15 has not expired": Case(15, (6, 8), 8, 0, (6, 8, 10), unsupported=(2, 3)),
    "boundary 9, younger checkpoints": Case(9, (6, 8, 12, 14), 8, 0, (6, 8, 10, 12, 14), unsupported=(2, 3)),
    "boundary 2, one version": Case(2, (1,), 1, 0, (1, 10), unsupported=(0, 1)),
    "boundary 3, two versions": Case(3, (1,), 2, 0, (1, 10), unsupported=(0, 1)),
    # A checkpoint at the edge is an exemption of delta-spark's, which cleans up to 8: (c) knows none.
    "a checkpoint at the edge": Case(10, (0, 8), 8, 0, (0, 8, 10), unsupported=(8, 15)),
    # Every protocol of the part is supported: it goes; its checkpoints stay by (a), delta-spark takes them.
    "all supported": Case(10, (8,), 8, 8, (8, 10)),
    "all supported, checkpoint 1": Case(10, (1, 8), 8, 8, (1, 8, 10)),
    "all supported, checkpoint 0": Case(10, (0, 8), 8, 8, (0, 8, 10)),
    "unsupported from the boundary on": Case(10, (8,), 8, 8, (8, 10), unsupported=(10, 15)),
    "unsupported after the boundary": Case(10, (8,), 8, 8, (8, 10), unsupported=(11, 15)),
    "unsupported right after the new start": Case(10, (0, 8), 8, 8, (0, 8, 10), unsupported=(9, 15)),
    # One that is not supported keeps the part.
    "unsupported first version": Case(10, (8,), 8, 0, (8, 10), unsupported=(0, 1)),
    "unsupported right before the start": Case(10, (0, 8), 8, 0, (0, 8, 10), unsupported=(7, 15)),
    "unsupported in between": Case(10, (8,), 8, 0, (8, 10), unsupported=(4, 7)),
    "dropped at the new start": Case(10, (8,), 8, 0, (8, 10), unsupported=(4, 8)),
    "unsupported at the start": Case(10, (0, 8), 8, 0, (0, 8, 10), unsupported=(8, 15)),
    "start not supported for writing": Case(
        10, (0, 8), 8, 0, (0, 8, 10), unsupported=(8, 15), binds=FOR_WRITING
    ),
    # Where a checksum does not tell, replay does, which delta-spark does not try: it keeps everything.
    "a checksum without protocol": Case(10, (8,), 8, 8, (8, 10), poor_checksum=3),
    "a checksum that is missing": Case(10, (8,), 8, 8, (8, 10), no_checksum=3),
    # Neither tells: the commit and its checksum are gone, and the one after it has set another protocol.
    "a version that nobody can tell": Case(
        10, (8,), 8, 0, (8, 10), unsupported=(-1, 4), no_checksum=3, every_protocol_known=False
    ),
}


def made(case: Case) -> RawTable:
    table = RawTable()
    table.clock.tick(12 * HOUR)
    since, until = case.unsupported or (-1, -1)
    configuration = {"delta.requireCheckpointProtectionBeforeVersion": str(case.boundary)}
    for version in range(case.versions):
        said: list[Wire] = []
        if version == since:
            said = [case.binds]
        elif version == until or version == 0:
            said = [PLAIN]
        if version == 0:
            said.append(metadata(configuration=configuration))
        table.commit(*said, add(f"f{version}"), tick=DAY)
        if version == case.poor_checksum:
            table.checksum(protocol=None)
        elif version != case.no_checksum:
            table.checksum()
        if version in case.checkpoints or version == 10:
            table.checkpoint(version)
    if not case.every_protocol_known:
        assert case.no_checksum is not None
        table.delete(f"{case.no_checksum:020d}.json")
    return table


@pytest.mark.parametrize("name", CASES)
def test_what_a_cleanup_leaves(name: str) -> None:
    case = CASES[name]
    table = made(case)
    before = commits(table)
    old = TableLog(table.store, clock=table.clock, registry=OLD)
    moment = table.store.head(f"{LOG}/{case.expired:020d}.json").modified
    clean_up(load(old), before=moment)
    assert commits(table) == [v for v in before if v >= case.first]
    assert checkpoints(table) == list(case.left)
    if case.every_protocol_known:
        assert verify(table.log, data=False).errors == ()


def test_a_start_that_has_not_expired_itself_is_none() -> None:
    """Commits 0 to 7 have expired, the checkpoint of 8 has not: versions that are kept need the one of 6."""
    table = made(Case(2, (6, 8), 7, 6, (6, 8, 10)))
    clean_up(table.load(), before=table.store.head(f"{LOG}/{7:020d}.json").modified)
    assert commits(table) == list(range(6, 16))
    assert checkpoints(table) == [6, 8, 10]
