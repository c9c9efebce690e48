"""Stage 2: fewer, cleaner documents.

In: Arrow record batches with `doc`, `id`, `source`, `path`, `text` and what the source carries.
Out: the same columns, text cleaned, documents dropped; each drop with the rule, the reason and the evidence.
Promise: a document's fate depends on the recipe and the corpus, never on its batch, its worker or the machine.
"""
