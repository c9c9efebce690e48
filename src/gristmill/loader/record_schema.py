"""The columns of a run's record: what is not known of a step is null."""

from __future__ import annotations

import pyarrow as pa

# at: seconds since 1970. waited: seconds. tokens: of this rank's rows, as are row_losses; loss is their mean, or what
# the trainer told, highest_loss the highest of them, which older versions did not keep. cache_*: what this process
# counted since the record began, told with the last step of each file.
SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("attempt", pa.int64()),
        ("rank", pa.int32()),
        ("world_size", pa.int32()),
        ("at", pa.float64()),
        ("waited", pa.float64()),
        ("tokens", pa.int64()),
        ("loss", pa.float64()),
        ("row_losses", pa.list_(pa.float32())),
        ("highest_loss", pa.float64()),
        ("cache_hits", pa.int64()),
        ("cache_misses", pa.int64()),
        ("fetched_bytes", pa.int64()),
    ]
)
