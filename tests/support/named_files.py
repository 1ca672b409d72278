"""Files that a log names and that are not there: planning asks for no more."""

from __future__ import annotations

from tidegate.log.actions import Add


def named_files(files: int, partitions: int = 0) -> list[Add]:
    """So many files of ten rows with the column ``id``, in so many partitions by ``p``."""
    return [
        Add(
            path=f"p={i % partitions}/part-{i:06d}.parquet" if partitions else f"part-{i:06d}.parquet",
            partition_values={"p": str(i % partitions)} if partitions else {},
            size=1_000,
            modification_time=1_700_000_000_000,
            data_change=True,
            stats=f'{{"numRecords":10,"minValues":{{"id":{i}}},"maxValues":{{"id":{i}}},"nullCount":{{"id":0}}}}',
        )
        for i in range(files)
    ]
