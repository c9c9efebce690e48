"""Spark DataFrames in and out: a store made of one, one judged by the rules of a recipe, and one over a store.

from gristmill.adapters.spark import curate, read_documents, write_store

write_store(df, "data/corpus", tokenizer="gpt2", text_col="text", id_col="id", recipe={"filters": ["gopher_quality"]})
judged = curate(df, {"filters": ["gopher_quality"]})          # judged.kept, judged.dropped: lazy DataFrames
documents = read_documents(spark, "data/corpus")              # id, source, split, fields, tokens

Classic sessions and those of Spark Connect are the same to it. No row is ever collected. `SparkStreamLoader`, which
trains from a DataFrame, can be had here too; its home is gristmill.adapters.spark_stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gristmill.adapters.spark_documents import documents_frame
from gristmill.adapters.spark_rows import Curated, SparkRows, judged_frame
from gristmill.adapters.spark_stream import SparkStreamLoader
from gristmill.core.arguments import PathLike, as_flag
from gristmill.frames.making import prepare_frame
from gristmill.frames.recipe import GivenRecipe, frame_recipe, narrow_recipe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gristmill.core.progress import Shown
    from gristmill.run import RunOptions
    from gristmill.store.manifest import Manifest

__all__ = ["Curated", "SparkStreamLoader", "curate", "read_documents", "write_store"]


def write_store(
    df: DataFrame,
    out: PathLike,
    *,
    tokenizer: str | None = None,
    text_col: str | None = None,
    id_col: str | None = None,
    recipe: GivenRecipe = None,
    overwrite: bool = False,
    options: RunOptions | Mapping[str, object] | None = None,
    progress: Shown = None,
) -> Manifest:
    """A store of the rows of a DataFrame, by all passes of `gristmill.prepare`, on the Spark that the DataFrame is of.

    `recipe` is a dict, a Recipe or the path of one, of which all counts but `out` and the paths of its sources; it may
    have one source, for the name, the `fields` to carry and the columns. Without `id_col` the hash of a text is its id.
    The store's bytes depend on the rows alone: not on their order, nor on how they are parted. A DataFrame that does
    not give the same rows twice is found out, and nothing is published. `options` are those of `prepare`.
    """
    made = frame_recipe(recipe, out, text_col, id_col, tokenizer)
    return prepare_frame(made, SparkRows(df, made), as_flag("overwrite", overwrite), progress, options)


def curate(df: DataFrame, recipe: GivenRecipe, *, text_col: str | None = None, id_col: str | None = None) -> Curated:
    """What the cleaning and the filters of a recipe make of each row, as lazy DataFrames: `kept`, `dropped`, `judged`.

    Rules that compare documents (dedup, decontaminate) are refused. A row that cannot be read ends the query, unless
    the recipe says on_error: skip; then its rule is `unreadable`.
    """
    return judged_frame(df, narrow_recipe(recipe, text_col, id_col))


def read_documents(spark: SparkSession, store: PathLike, *, tokens: bool = True, text: bool = False) -> DataFrame:
    """The documents of a store: id, source, split and carried fields, with `tokens` (EOS last) and `text` as asked for.

    A store is read whole, or one split of it (`data/corpus/val`). All nodes must see it. No token is read unless one of
    the two columns is asked for.
    """
    return documents_frame(spark, store, as_flag("tokens", tokens), as_flag("text", text))
