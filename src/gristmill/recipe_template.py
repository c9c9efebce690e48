"""The recipe that `gristmill init` writes: every key with its default and what it does; a test holds it complete."""

from __future__ import annotations

TEMPLATE = """\
# A recipe: all that decides the bytes of a store.
#   gristmill prepare --recipe recipe.yaml --dry-run       what would be done, and an estimate
#   gristmill prepare --recipe recipe.yaml --sample 1000   what each rule would drop, alone and together
#   gristmill prepare --recipe recipe.yaml                 the store; after a crash, run it again
# Everything is optional but out and sources; a key that is not known is an error. What is not in use has a # before it:
# take that out to use it. Values are the defaults; null means none. docs/prepare.md and docs/filters.md say more.

out: data/corpus          # folder of the new store
seed: 0                   # of the split into train and val, of shuffle and of mix

sources:
  # Text, JSONL, Parquet, Arrow and WebDataset tars, plain or .gz .zst .bz2 .xz; files, folders or patterns.
  - name: web
    paths: ["raw/web/*.jsonl.zst"]
    text: text            # key or column of the text
    id: id                # key or column of the id; without one, file and place name a document
#    fields: []           # more keys or columns to carry into the documents' table: [url, date]
#    documents: file      # what a document is in plain text: a file, a line or a paragraph
#    format: null         # text, jsonl, parquet, arrow or webdataset; null goes by the file's name
#    encoding: utf-8      # of plain text and JSONL
#    priority: 0          # for dedup's `keep: priority`; the higher one stays

clean:                    # `clean: none` keeps texts as they are
  unicode: nfc            # nfc, nfkc or none
  line_ends: true         # CR LF and its kin become LF
  control: true           # remove control characters
  whitespace: true        # strip blanks at the ends of lines and documents
  ftfy: false             # repair text decoded by the wrong codec (needs gristmill[ftfy])
  redact: []              # put placeholders for: [email, ip, phone]
  redact_variant: gristmill    # datatrove: what its PIIFormatter finds

filters:                  # run in this order: the first rule that drops a document is its reason
#  - length:
#      min_chars: 100
#      max_chars: null
#      min_words: 0
#      max_words: null
#      min_lines: 0              # lines that are not blank
#      max_lines: null
#  - language:
#      keep: []                  # [en, de]; none named keeps all that are known
#      min_score: 0.65           # probability of the language
#      sample_bytes: 2048        # longer documents are judged on four pieces
#  - url:                        # of a carried field; each list in place, or the path of a file with an entry a line
#      field: url                # carry it by the source's fields
#      domains: []               # hosts, and all below them
#      urls: []                  # whole addresses
#      words: []                 # one of these words in the address
#      soft_words: []            # so many different ones of these
#      min_soft_words: 2
#      substrings: []            # anywhere in the address
#  - gopher_quality:             # Rae et al. 2021; a limit of null is off
#      variant: gristmill        # datatrove: its decisions (needs gristmill[spacy])
#      min_words: 50
#      max_words: 100000
#      min_mean_chars: 3         # of a word
#      max_mean_chars: 10
#      max_symbol_ratio: 0.1     # hashes, and ellipses, per word
#      max_bullet_ratio: 0.9     # lines that begin with a bullet
#      max_ellipsis_ratio: 0.3   # lines that end with an ellipsis
#      min_alpha_ratio: 0.8      # words with a letter
#      min_stop_words: 2
#      stop_words: [the, be, to, of, and, that, have, with]
#  - gopher_repetition:          # the share that repeats; null is off
#      variant: gristmill        # datatrove: its decisions (needs gristmill[spacy])
#      dup_para_frac: 0.3        # paragraphs that came before, by number
#      dup_para_char_frac: 0.2   # and by characters
#      dup_line_frac: 0.3        # the same of lines
#      dup_line_char_frac: 0.2
#      top_n_grams: [[2, 0.2], [3, 0.18], [4, 0.16]]      # characters of the most frequent n-gram
#      dup_n_grams: [[5, 0.15], [6, 0.14], [7, 0.13], [8, 0.12], [9, 0.11], [10, 0.1]]   # of those that came before
#  - c4:                         # Raffel et al. 2020: drops lines, then documents
#      variant: c4               # datatrove: its decisions (needs gristmill[spacy])
#      min_words: null           # of a line; null is the variant's own: 5, or 3
#      min_sentences: null       # of a document; null is the variant's own: 3, or 5
#      max_word_chars: 1000
#      skip: []                  # leave out: citations, terminal, lorem_ipsum, javascript, curly_bracket, policy
#  - c4_paragraph:               # mC4: so many lines of so many characters
#      min_paragraphs: 3
#      min_chars: 200
#  - fineweb:                    # Penedo et al. 2024
#      variant: gristmill        # datatrove: its decisions (needs gristmill[spacy])
#      line_punct_ratio: 0.12    # lines that end in punctuation, at least
#      line_punct_exempt_zero: false   # keep pages in which no line does
#      short_line_chars: 30
#      short_line_ratio: 0.67    # lines of at most so many characters, at most
#      char_dup_ratio: 0.01      # characters of lines that came before, at most
#      list_ratio: 0.3           # line ends per word, at most
#  - profanity:
#      variant: gristmill        # datatrove: dropped at the first listed word
#      languages: [en]           # lists that come with the package, 27 languages
#      words: null               # or a file of one's own, an entry a line
#      max_ratio: 0.045          # of the characters in words
#      keep_fraction: 0.0        # of what variant datatrove would drop
#  - fasttext:                   # needs gristmill[fasttext]
#      model: toxic.bin          # a trained model of one's own
#      label: toxic
#      max_score: 1.0            # dropped over this probability of the label
#      min_score: 0.0            # or under this one
#  - code_ratio:                 # share of lines that look like code
#      max: 0.5
#      min: 0.0
#  - code_quality:               # for source files; the limits of RedPajama and BigCode
#      extensions: []            # [py, rs]; none named takes all
#      max_line: 1000            # characters
#      max_mean_line: 100.0
#      min_alphanumeric: 0.25    # share of characters
#      min_alphabetic_per_token: 1.5
#      min_comments: 0.0         # share of characters on lines of comment
#      max_comments: 1.0
#      min_lines: 0
#      max_lines: null
#  - function:                   # a Python function of one's own
#      path: my_rules.py
#      function: keep            # given a document, says True, False or why it goes
#      batch: false              # true: given an Arrow record batch, says a boolean a row

dedup:                    # in this order; `dedup: none` keeps duplicates
  - exact:
      keep: first                # or priority: of the source with the highest
#  - near:
#      threshold: 0.8            # Jaccard similarity of shingles from which on a document goes
#      ngram: 5                  # units a shingle
#      unit: word                # or char
#      keep: first               # first, longest or priority
#      verify: true              # compute the similarity of each candidate
#      permutations: 128         # MinHashes of a document
#      bands: null               # and how they are cut; null finds what suits the threshold
#      rows: null
#      max_bucket: 100           # a larger bucket is compared in part
#      index: null               # folder of an earlier run's --save-index
#      seed: 0
#  - lines:                      # lines that the corpus has already seen; after near, which compares whole texts
#      unit: line                # or paragraph
#      min_chars: 20             # shorter ones stay

#decontaminate:           # documents that share words with evaluations go
#  paths: ["evals/*.jsonl"]
#  ngram: 13              # words in a row
#  min_words: 8           # an item of fewer than ngram words must be found whole, if it has so many
#  fields: []             # keys of a JSONL record to look for; none named takes all that hold text

tokenizer: gpt2           # byte, gpt2, a tiktoken name, a tokenizer.json, a hub name
eos: null                 # id that ends documents, where the tokenizer does not tell it

#mix:                     # sample and repeat sources to these shares
#  weights: {web: 1.0}
#  target: 1000000
#  unit: documents        # or tokens
shuffle: false            # the order of documents in the store; a loader shuffles by itself

store:
  tokens_per_shard: 100000000    # at most
  val_fraction: 0.005     # share of documents held out, chosen by their content
  compression: none       # or zstd, for stores that are read over a slow disk

on_error: raise           # or skip: count what cannot be read, and report it
"""
