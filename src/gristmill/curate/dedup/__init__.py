"""Stage 2, dedup: which documents and lines say again what another one says.

In: per unit, hashes or MinHash keys of the surviving documents; wide queries find equal ones across the corpus.
Out: Parquet files of what goes, each row naming the document that stays and, for near duplicates, the similarity.
Promise: decided by content, the keep rule and `doc` alone; near duplicates go only on a verified Jaccard similarity.
"""
