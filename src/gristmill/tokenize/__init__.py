"""Stage 3 of 7, tokenize: documents -> token ids.

In: Arrow record batches with a `text` column, and the name of a tokenizer (or a path to its file). Out: the
same batches with a `tokens` column of uint16 or uint32 lists, the end-of-document id after each document.
Promise: ids equal the reference library's, checked at start-up; no text in a document can forge a boundary.
"""

from __future__ import annotations

from gristmill.tokenize.tokenizer import Tokenizer, encode_batch, load_tokenizer

__all__ = ["Tokenizer", "encode_batch", "load_tokenizer"]
