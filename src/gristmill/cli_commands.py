"""The commands that make stores, move finished tokens, and look at what is there: their words and options.

What a command does is imported when it runs, so that `--help` is there at once.
"""

from __future__ import annotations

import argparse

from gristmill.cli_options import Commands, add_number, command, foreign_options, later, number
from gristmill.core.values import Count, Positive, Seed, Share


def add_prepare(commands: Commands) -> None:
    """`gristmill prepare`"""
    parser = command(
        commands, "prepare", later("cli_prepare:run_prepare"),
        "Make a store of raw text: read, clean, drop duplicates, tokenise, split into train and val. A run that was "
        "cut short goes on where it was when the same command is given again.",
        "my.txt --out data/mine",
        "web=raw/web 'code=raw/*.jsonl.zst' --out data/corpus",
        "--recipe recipe.yaml --dry-run",
        "--recipe recipe.yaml",
    )  # fmt: skip
    parser.usage = (
        "gristmill prepare INPUT... --out DIR [OPTION...]\n       gristmill prepare --recipe FILE [OPTION...]"
    )
    _add_inputs(parser)
    _add_recipe_options(parser.add_argument_group("what decides the bytes of the store"))
    _add_source_options(parser.add_argument_group("how documents are found in the inputs"))
    _add_run_options(parser.add_argument_group("how it runs; the store is the same"))


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="A text, JSONL, Parquet, Arrow or tar file, plain or compressed; a folder of such; or a pattern in "
        "quotes. NAME=INPUT names its source; else a folder is a source by its own name, and all files are the "
        "source 'text'.",
    )
    parser.add_argument(
        "--input-files", nargs="+", action="extend", default=[], metavar="INPUT", help="Inputs, given as an option."
    )
    parser.add_argument("--out", "--out-dir", metavar="DIR", help="The folder of the new store.")
    parser.add_argument(
        "--recipe", metavar="FILE", help="A YAML file that says all that decides the store's bytes; `gristmill init` "
        "writes one to begin with."
    )  # fmt: skip


def _add_recipe_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--tokenizer", "--tokenization", metavar="NAME",
        help="One of byte, gpt2, a tiktoken name, a tokenizer.json or a hub name; gpt2 by default.",
    )  # fmt: skip
    add_number(parser, "--eos", Count, "The EOS id, where the tokenizer does not tell it.", metavar="ID")
    add_number(parser, "--tokens-per-shard", Positive, "A shard holds this many at most; 100,000,000.")
    add_number(parser, "--val-fraction", Share, "Hold this share out as val; 0.005 by default.", metavar="X")
    parser.add_argument("--compression", choices=("none", "zstd"), help="Compress the tokens, or not (the default).")
    add_number(parser, "--seed", Seed, "It decides the split into train and val, and --shuffle.")
    parser.add_argument("--shuffle", action="store_const", const=True, help="Shuffle the documents of the store.")
    parser.add_argument("--no-normalize", action="store_true", help="Keep the text as it is.")
    parser.add_argument(
        "--dedup", metavar="K,K", help="Drop duplicates: exact (the default), lines, near; in this order."
    )
    parser.add_argument("--no-dedup", action="store_true", help="Keep duplicates.")


def _add_source_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--text-field", dest="text", metavar="KEY", help="The text stands under this key or column; `text` by default."
    )
    parser.add_argument(
        "--id-field",
        dest="id",
        metavar="KEY",
        help="The id stands under this one; `id` by default, else the document's place names it.",
    )
    parser.add_argument("--fields", metavar="K,K", help="Carry these keys or columns into the documents' table.")
    parser.add_argument(
        "--documents",
        choices=("file", "line", "paragraph"),
        help="In plain text a document is a file (the default), a line or a paragraph.",
    )
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help="Text and JSONL are written in this one: latin-1, cp1252, utf-16, ...; utf-8 by default.",
    )
    parser.add_argument(
        "--on-error", choices=("raise", "skip"), help="Stop at unreadable input (the default), or count and report it."
    )


def _add_run_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--engine", metavar="NAME", help="Work there: local, which is this machine, by default.")
    add_number(parser, "--workers", Positive, "Work in so many processes; as many as cores by default.")
    parser.add_argument(
        "--memory", metavar="SIZE", help="Use so much for the whole run, and spill the rest to disk; 4GB by default."
    )
    parser.add_argument("--work", metavar="DIR", help="Keep unfinished work here, and use it again in later runs.")
    parser.add_argument(
        "--save-index", metavar="DIR", help="Keep what later runs need to find near duplicates of this store."
    )
    parser.add_argument(
        "--keep-dropped", action="store_true", help="Keep the texts of dropped documents, for `gristmill dropped`."
    )
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and an estimate, and write nothing.")
    add_number(parser, "--sample", Positive, "Judge N documents by each rule, alone and together; write nothing.")
    parser.add_argument(
        "--pack",
        type=number(Positive),
        action="append",
        default=[],
        metavar="SEQ_LEN",
        help="Build a pack index too; may be given several times.",
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace a finished store.")


def add_init(commands: Commands) -> None:
    """`gristmill init`"""
    parser = command(
        commands, "init", later("cli_prepare:run_init"),
        "Write a recipe with every key explained. Edit its sources, then give it to `gristmill prepare --recipe`.",
        "", "corpus.yaml",
    )  # fmt: skip
    parser.add_argument(
        "path", nargs="?", default="recipe.yaml", metavar="FILE", help="The file to write; recipe.yaml by default."
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace the file.")


def add_train_tokenizer(commands: Commands) -> None:
    """`gristmill train-tokenizer`"""
    parser = command(
        commands, "train-tokenizer", later("cli_prepare:run_train_tokenizer"),
        "Learn a byte-level BPE tokenizer from your own text. The file is used by `--tokenizer FILE`.",
        "raw/*.txt --out tokenizer.json --vocab-size 32000",
    )  # fmt: skip
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="Files, folders or patterns, as for prepare.")
    parser.add_argument("--out", required=True, metavar="FILE", help="The tokenizer.json to write.")
    add_number(parser, "--vocab-size", Positive, "Ids in all; 32,000 by default.", default=32_000)
    parser.add_argument("--limit", default="1GB", metavar="SIZE", help="Text to learn from, at most; 1GB by default.")
    parser.add_argument(
        "--text-field", dest="text", metavar="KEY", help="The text stands under this key or column; `text` by default."
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace the file.")


def add_inspect(commands: Commands) -> None:
    """`gristmill inspect`"""
    parser = command(
        commands, "inspect", later("cli_look:run_inspect"),
        "Show what is in a store, a split, a token file, a plan or a checkpoint. A store shows its figures and its "
        "funnel: what each step left of the documents, and why the others went.",
        "data/corpus", "data/corpus --doc web/a.jsonl:12", "plan.json --step 48211", "checkpoint.json --plan plan.json",
    )  # fmt: skip
    parser.add_argument(
        "path", metavar="PATH",
        help="A store's folder or one of its splits, a token file or several ('t-{00..15}.bin'), or the JSON of a plan "
        "or a checkpoint.",
    )  # fmt: skip
    parser.add_argument("--doc", metavar="ID", help="Show a document: where a store has it, or when a plan serves it.")
    add_number(parser, "--step", Count, "Show which documents are in this step of a plan.")
    add_number(parser, "--until", Positive, "Look this far into a plan; by default to its end.")
    parser.add_argument("--plan", metavar="FILE", help="Check that a checkpoint belongs to this plan.")
    foreign_options(parser)


def add_dropped(commands: Commands) -> None:
    """`gristmill dropped`"""
    parser = command(
        commands, "dropped", later("cli_look:run_dropped"),
        "Show what is not in a store, and why: how many documents each rule dropped for which reason, with examples. "
        "Their texts are shown if the store was prepared with --keep-dropped.",
        "data/corpus", "data/corpus --rule gopher_quality --examples 5", "data/corpus --reason too_few_chars --json",
    )  # fmt: skip
    parser.add_argument("path", metavar="DIR", help="A store that `gristmill prepare` made.")
    parser.add_argument("--rule", metavar="R", help="Show only what this rule (or step) dropped.")
    parser.add_argument("--reason", metavar="R", help="Show only what went for this reason.")
    parser.add_argument("--source", metavar="S", help="Show only what went from this source.")
    add_number(
        parser,
        "--examples",
        Positive,
        "Show so many of each reason; 1 by default, and 3 where a rule, reason or source is named.",
    )


def add_verify(commands: Commands) -> None:
    """`gristmill verify`"""
    parser = command(
        commands, "verify", later("cli_look:run_verify"),
        "Check every checksum, count and boundary of a store. Each fault is named, and the exit code is then 1.",
        "data/corpus",
    )  # fmt: skip
    parser.add_argument("path", metavar="DIR", help="A store, or one of its splits.")


def add_index(commands: Commands) -> None:
    """`gristmill index`"""
    parser = command(
        commands, "index", later("cli_files:run_index"),
        'Build the index that cut="pack" reads, or find the documents of a bare token file. Both are made once, and '
        "lie beside the tokens.",
        "data/corpus/train --seq-len 2048", "tokens.bin --dtype uint16 --eos 50256",
    )  # fmt: skip
    parser.add_argument("paths", nargs="+", metavar="PATH", help="A split of a store, or token files.")
    add_number(parser, "--seq-len", Positive, "Build the pack index for windows of this length.")
    foreign_options(parser)
    parser.add_argument("--index-dir", metavar="DIR", help="Where pack indexes lie, if not beside the tokens.")
    parser.add_argument("--force", action="store_true", help="Build again what is there.")


def add_join(commands: Commands) -> None:
    """`gristmill join`"""
    parser = command(
        commands, "join", later("cli_files:run_join"),
        "Make one store of several. Their tokens stay where they are, and must come from one tokenizer.",
        "data/2024 data/2025 --out data/both",
    )  # fmt: skip
    parser.add_argument("paths", nargs="+", metavar="STORE", help="Stores that stay in place; their order counts.")
    parser.add_argument("--out", required=True, metavar="DIR", help="The folder of the new store.")
    parser.add_argument("--overwrite", action="store_true", help="Replace a finished store.")


def add_export(commands: Commands) -> None:
    """`gristmill export`"""
    parser = command(
        commands, "export", later("cli_files:run_export"),
        "Give a store to another system in its own format. Files are linked where the bytes are equal, and copied "
        "where they are not; what to put into that system's configuration is printed.",
        "data/corpus --to megatron --out data/megatron",
    )  # fmt: skip
    parser.add_argument("path", metavar="DIR", help="A store, or one of its splits.")
    parser.add_argument(
        "--to", required=True, metavar="FORMAT", help="One of megatron, olmo, nanogpt, llmc, npy and sharded-bin."
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="An empty folder.")
    parser.add_argument("--overwrite", action="store_true", help="Replace an older export.")


def add_import(commands: Commands) -> None:
    """`gristmill import`"""
    parser = command(
        commands, "import", later("cli_files:run_import"),
        "Make a store of another system's token files. Files are linked where the bytes are equal.",
        "train.bin --dtype uint16 --tokenizer gpt2 --out data/imported",
    )  # fmt: skip
    parser.add_argument(
        "paths", nargs="+", metavar="FILE", help="Files of tokens: .bin, .npy, Megatron's or llm.c's; a shard each."
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="The folder of the new store.")
    parser.add_argument("--tokenizer", required=True, metavar="NAME", help="The tokenizer that made the tokens.")
    add_number(parser, "--eos", Count, "What ends a document, if not the tokenizer's own EOS.", metavar="ID")
    parser.add_argument("--dtype", help="The type of files without a header: uint16, uint32, ...")
    parser.add_argument(
        "--boundaries",
        choices=("auto", "eos"),
        default="auto",
        help="Find documents by the files' own index where there is one (auto, the default), or by EOS alone.",
    )
    parser.add_argument(
        "--split", default="train", choices=("train", "val"), help="The split that the tokens become; train by default."
    )
    parser.add_argument("--overwrite", action="store_true", help="Replace a finished store.")
