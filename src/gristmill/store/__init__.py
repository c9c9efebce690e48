"""Stage 4: the files that both halves share.

In: token arrays with their documents' names (writer), or a path (reader).
Out: `.bin` + Megatron `.idx` + `.sum` + `.docs.parquet` + `.ids` a shard, and a manifest written last.
Promise: equal content gives equal bytes; opening reads no tokens; a damaged file is named.
"""
