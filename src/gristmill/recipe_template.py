"""What `gristmill init` writes: a recipe that names every key, with its default and what it does."""

from __future__ import annotations

TEMPLATE = """\
# A Gristmill recipe: everything that decides the bytes of a store.
#   gristmill prepare --recipe recipe.yaml --dry-run       the plan, and an estimate
#   gristmill prepare --recipe recipe.yaml --sample 1000   what each rule would drop, alone and together
#   gristmill prepare --recipe recipe.yaml                 the store; after a crash, run it again
# Everything is optional but out and sources; a key that is not known is an error.

out: data/corpus          # folder of the new store
seed: 0                   # of the split into train and val, of shuffle and of mix

sources:
  # Text, JSONL, Parquet, Arrow and WebDataset tars, plain or .gz .zst .bz2 .xz; files, folders or patterns.
  - name: web
    paths: ["raw/web/*.jsonl.zst"]
    text: text            # key or column of the text
    id: id                # key or column of the id; without one, file and place name a document
    # fields: [url, date] # more keys to carry into the documents' table
    # documents: file     # plain text: a document a file, a line or a paragraph
    # priority: 0         # for dedup's keep: priority; the higher one stays

clean:                    # `clean: none` keeps texts as they are
  unicode: nfc            # nfc, nfkc or none
  line_ends: true         # CR LF and its kin become LF
  control: true           # remove control characters
  whitespace: true        # strip blanks at the ends of lines and documents
  ftfy: false             # repair mojibake (needs gristmill[ftfy])
  redact: []              # email, ip, phone

filters: []               # run in this order: the first rule that drops a document is its reason
#  - length: {min_chars: 100, max_chars: 100000}
#  - language: {keep: [en], min_score: 0.65}
#  - gopher_quality: {}            # variant: datatrove gives that implementation's decisions (gristmill[spacy])
#  - gopher_repetition: {}
#  - c4: {}
#  - fineweb: {}
#  - profanity: {languages: [en]}
#  - code_ratio: {max: 0.5}
#  - url: {domains: blocked.txt}
#  - function: {path: my_rules.py, function: keep}

dedup:                    # in this order; `dedup: none` keeps duplicates
  - exact: {}
#  - near: {threshold: 0.8, permutations: 128, ngram: 5, unit: word, keep: first}
#  - lines: {}                     # lines that the corpus has already seen; after near, which compares whole texts

# decontaminate: {paths: ["evals/*.jsonl"], ngram: 13}

tokenizer: gpt2           # byte, gpt2, a tiktoken name, a tokenizer.json, a hub name

# mix: {weights: {web: 1.0}, target: 1000000, unit: documents}   # sample and repeat sources to these shares
shuffle: false            # the order of documents in the store; a loader shuffles by itself

store:
  tokens_per_shard: 100000000
  val_fraction: 0.005     # share of documents held out by their content; of few or large ones, of the text
  compression: none       # or zstd, for stores that are read over a slow disk

on_error: raise           # or skip: count what cannot be read, and report it
"""
