"""All commands of the command line: their words, examples and options.

What a command does is imported when it runs, so that `--help` is there at once.
"""

from __future__ import annotations

import argparse

from gristmill.cli_options import Commands, add, add_flag, add_number, command, foreign_options
from gristmill.core.values import Amount, Count, Positive, Rate, Seconds, Seed, Share


def add_commands(commands: Commands) -> None:
    """Every command, in the order of the help."""
    for declare in (
        _prepare, _init, _stream, _train_tokenizer, _inspect, _dropped, _view, _verify, _index, _join, _export, _import,
        _report, _simulate, _ledger, _watch, _bench, _warm, _demo,
    ):  # fmt: skip
        declare(commands)


def _prepare(commands: Commands) -> None:
    parser = command(
        commands, "prepare", "cli_prepare:run_prepare",
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
    add(parser, "inputs", "INPUT", "A text, JSONL, Parquet, Arrow or tar file, plain or compressed; a folder of such; "
        "or a pattern in quotes. NAME=INPUT names its source; else a folder is a source by its own name, and all files "
        "are the source 'text'.", nargs="*")  # fmt: skip
    add(parser, "--input-files", "INPUT", "Inputs, given as an option.", nargs="+", action="extend", default=[])
    add(parser, "--out --out-dir", "DIR", "The folder of the new store.")
    add(parser, "--recipe", "FILE", "A YAML file that says all that decides the store's bytes; `gristmill init` writes "
        "one to begin with.")  # fmt: skip


def _add_recipe_options(parser: argparse._ArgumentGroup) -> None:
    add(parser, "--tokenizer --tokenization", "NAME",
        "One of byte, gpt2, a tiktoken name, a tokenizer.json or a hub name; gpt2 by default.")  # fmt: skip
    add_number(parser, "--eos", Count, "The EOS id, where the tokenizer does not tell it.", metavar="ID")
    add_number(parser, "--tokens-per-shard", Positive, "A shard holds this many at most; 100,000,000.")
    add_number(parser, "--val-fraction", Share, "Hold this share out as val; 0.005 by default.", metavar="X")
    add(parser, "--compression", None, "Compress the tokens, or not (the default).", choices=("none", "zstd"))
    add_number(parser, "--seed", Seed, "It decides the split into train and val, and --shuffle.")
    parser.add_argument("--shuffle", action="store_const", const=True, help="Shuffle the documents of the store.")
    add_flag(parser, "--no-normalize", "Keep the text as it is.")
    add(parser, "--dedup", "K,K", "Drop duplicates: exact (the default), lines, near; in this order.")
    add_flag(parser, "--no-dedup", "Keep duplicates.")


def _add_text_field(parser: argparse._ActionsContainer) -> None:
    add(parser, "--text-field", "KEY", "The text stands under this key or column; `text` by default.", dest="text")


def _add_source_options(parser: argparse._ArgumentGroup) -> None:
    _add_text_field(parser)
    add(parser, "--id-field", "KEY", "The id stands under this one; `id` by default, else the document's place names "
        "it.", dest="id")  # fmt: skip
    add(parser, "--fields", "K,K", "Carry these keys or columns into the documents' table.")
    add(parser, "--documents", None, "In plain text a document is a file (the default), a line or a paragraph.",
        choices=("file", "line", "paragraph"))  # fmt: skip
    add(parser, "--encoding", "NAME",
        "Text and JSONL are written in this one: latin-1, cp1252, utf-16, ...; utf-8 by default.")  # fmt: skip
    add(parser, "--on-error", None, "Stop at unreadable input (the default), or count and report it.",
        choices=("raise", "skip"))  # fmt: skip


def _add_run_options(parser: argparse._ArgumentGroup) -> None:
    add(parser, "--engine", "NAME", "Work there: local (this machine, the default), or spark.")
    add(parser, "--master", "URL", "With --engine spark: the cluster's address; by default this machine.")
    add(parser, "--remote", "URL", "With --engine spark: a Spark Connect server, sc://HOST:PORT.")
    add_number(parser, "--workers", Positive, "Work in so many processes; as many as cores by default.")
    add(parser, "--memory", "SIZE", "Use so much for the whole run, and spill the rest to disk; 4GB by default.")
    add(parser, "--work", "DIR", "Keep unfinished work here (a folder, or s3://...), and use it again in later runs.")
    add(parser, "--save-index", "DIR", "Keep what later runs need to find near duplicates of this store.")
    add_flag(parser, "--keep-dropped", "Keep the texts of dropped documents, for `gristmill dropped` and the report.")
    add_flag(parser, "--no-report", "Make no report.html; `gristmill report` makes it at any time.")
    add_flag(parser, "--dry-run", "Print the plan and an estimate, and write nothing.")
    add_number(parser, "--sample", Positive, "Judge N documents by each rule, alone and together; write nothing.")
    add_number(parser, "--pack", Positive, "Build a pack index too; may be given several times.", metavar="SEQ_LEN",
               action="append", default=[])  # fmt: skip
    add_flag(parser, "--overwrite", "Replace a finished store.")


def _init(commands: Commands) -> None:
    parser = command(
        commands, "init", "cli_prepare:run_init",
        "Write a recipe with every key explained. Edit its sources, then give it to `gristmill prepare --recipe`.",
        "", "corpus.yaml",
    )  # fmt: skip
    add(parser, "path", "FILE", "The file to write; recipe.yaml by default.", nargs="?", default="recipe.yaml")
    add_flag(parser, "--overwrite", "Replace the file.")


def _stream(commands: Commands) -> None:
    parser = command(
        commands, "stream", "cli_prepare:run_stream",
        "Look at the first batches of a recipe's stream: what a model would see, how fast it comes, and what the "
        "filters drop. Nothing is written; `gristmill prepare --recipe` makes the store of the same documents. With "
        "--step it tells which documents were in a step of a training run.",
        "recipe.yaml", "recipe.yaml --cut pad --seq-len 512 --examples 3", "recipe.yaml --steps 1000 --json",
        "recipe.yaml --batch-size 64 --seed 0 --step 48211 --state state.json",
    )  # fmt: skip
    add(parser, "recipe", "RECIPE", "A YAML file as for prepare; `gristmill init` writes one to begin with.")
    add_number(parser, "--steps", Positive, "Take so many batches; 10 by default.")
    add_number(parser, "--seq-len", Positive, "Tokens a sequence; 2,048 by default.", default=2048)
    add_number(parser, "--batch-size", Positive, "Sequences a batch; 8 by default.", default=8)
    add(parser, "--cut", None, "How sequences are cut: pack (the default), chunk, pad.",
        choices=("pack", "chunk", "pad"), default="pack")  # fmt: skip
    add_number(parser, "--seed", Seed, "It decides the order; by default the recipe's.")
    add(parser, "--split", None, "Only the documents of train, or those held out for val; all by default.",
        choices=("train", "val"))  # fmt: skip
    add_number(parser, "--step", Count, "Show the documents of this step, counted from 0, and not the first batches.")
    add(parser, "--state", "FILE", "A state of all ranks that was kept at --step or before it; without one, all steps "
        "up to it are made again.")  # fmt: skip
    add_number(parser, "--examples", Count, "Show so many documents that were dropped, of each reason; 0 by default.")


def _train_tokenizer(commands: Commands) -> None:
    parser = command(
        commands, "train-tokenizer", "cli_prepare:run_train_tokenizer",
        "Learn a byte-level BPE tokenizer from your own text. The file is used by `--tokenizer FILE`.",
        "raw/*.txt --out tokenizer.json --vocab-size 32000",
    )  # fmt: skip
    add(parser, "inputs", "INPUT", "Files, folders or patterns, as for prepare.", nargs="+")
    add(parser, "--out", "FILE", "The tokenizer.json to write.", required=True)
    add_number(parser, "--vocab-size", Positive, "Ids in all; 32,000 by default.", default=32_000)
    add(parser, "--limit", "SIZE", "Text to learn from, at most; 1GB by default.", default="1GB")
    _add_text_field(parser)
    add_flag(parser, "--overwrite", "Replace the file.")


def _inspect(commands: Commands) -> None:
    parser = command(
        commands, "inspect", "cli_look:run_inspect",
        "Show what is in a store, a split, a token file, a plan, a checkpoint or a run. A store shows its figures and "
        "its funnel: what each step left of the documents, and why the others went. A run is a folder in which "
        "loader.record() has kept what was served: it shows which steps stand out, and the documents behind them.",
        "data/corpus", "data/corpus --doc web/a.jsonl:12", "plan.json --step 48211", "checkpoint.json --plan plan.json",
        "run --spikes", "run --exclude-doc web/a.jsonl:12 --from-step 48000 --out plan2.json",
    )  # fmt: skip
    add(parser, "path", "PATH", "A store's folder or one of its splits, a token file or several ('t-{00..15}.bin'), "
        "the JSON of a plan or a checkpoint, or the folder of a run.")  # fmt: skip
    add(parser, "--doc", "ID", "Show a document: where a store has it, or when a plan serves it.")
    add_flag(parser, "--paths", "Print the token files of a store or a split, one a line, for a training config.")
    add_number(parser, "--step", Count, "Show which documents are in this step of a plan, or a run's batch as text.")
    add_number(parser, "--until", Positive, "Look this far into a plan; by default to its end.")
    add(parser, "--plan", "FILE", "Check that a checkpoint belongs to this plan.")
    add_flag(parser, "--spikes", "Show the steps of a run whose loss stands out, and the documents behind them.")
    add_number(parser, "--exclude-step", Count, "Write a plan to --out that skips this step; may be given several "
               "times.", action="append")  # fmt: skip
    add(parser, "--exclude-doc", "ID", "Write a plan to --out that leaves this document out from --from-step on; may "
        "be given several times.", action="append")  # fmt: skip
    add_number(parser, "--from-step", Count, "The step of the checkpoint that you will resume from.")
    add(parser, "--out", "FILE", "The new plan's file.")
    foreign_options(parser)


def _dropped(commands: Commands) -> None:
    parser = command(
        commands, "dropped", "cli_look:run_dropped",
        "Show what is not in a store, and why: how many documents each rule dropped for which reason, with examples. "
        "Their texts are shown if the store was prepared with --keep-dropped.",
        "data/corpus", "data/corpus --rule gopher_quality --examples 5", "data/corpus --reason too_few_chars --json",
    )  # fmt: skip
    add(parser, "path", "DIR", "A store that `gristmill prepare` made.")
    add(parser, "--rule", "R", "Show only what this rule (or step) dropped.")
    add(parser, "--reason", "R", "Show only what went for this reason.")
    add(parser, "--source", "S", "Show only what went from this source.")
    add_number(parser, "--examples", Positive,
               "Show so many of each reason; 1 by default, and 3 where a rule, reason or source is named.")  # fmt: skip


def _view(commands: Commands) -> None:
    parser = command(
        commands, "view", "cli_look:run_view",
        "Look at a store, a plan or a run in a browser: find documents by phrase, id or field, see their tokens and "
        "their way through the rules, the batch of any step, and what was dropped. The page is for this machine alone, "
        "at an address that it prints, and ends with the command.",
        "data/corpus", "plan.json --no-browser", "runs/first --port 8080",
    )  # fmt: skip
    add(parser, "path", "PATH", "A store or one of its splits, the JSON of a plan, or the folder of a run: "
        "served.parquet and plan.json, as loader.record() leaves them.")  # fmt: skip
    add_number(parser, "--port", Count, "Listen at this one; by default at one that is free.", default=0)
    add_flag(parser, "--no-browser", "Only print the address.")


def _verify(commands: Commands) -> None:
    parser = command(
        commands, "verify", "cli_look:run_verify",
        "Check every checksum, count and boundary of a store. Each fault is named, and the exit code is then 1.",
        "data/corpus",
    )  # fmt: skip
    add(parser, "path", "DIR", "A store, or one of its splits.")


def _index(commands: Commands) -> None:
    parser = command(
        commands, "index", "cli_files:run_index",
        'Build the index that cut="pack" reads, or find the documents of a bare token file. Both are made once, and '
        "lie beside the tokens.",
        "data/corpus/train --seq-len 2048", "tokens.bin --dtype uint16 --eos 50256",
    )  # fmt: skip
    add(parser, "paths", "PATH", "A split of a store, or token files.", nargs="+")
    add_number(parser, "--seq-len", Positive, "Build the pack index for windows of this length.")
    add_number(parser, "--range-documents", Positive,
               "How many documents that follow each other are packed together (65,536). Take about 256 for a store in "
               "a bucket and a plan with locality: they lie near each other then.")  # fmt: skip
    foreign_options(parser)
    add(parser, "--index-dir", "DIR", "Where pack indexes lie, if not beside the tokens.")
    add_flag(parser, "--force", "Build again what is there.")


def _join(commands: Commands) -> None:
    parser = command(
        commands, "join", "cli_files:run_join",
        "Make one store of several. Their tokens stay where they are, and must come from one tokenizer.",
        "data/2024 data/2025 --out data/both",
    )  # fmt: skip
    add(parser, "paths", "STORE", "Stores that stay in place; their order counts.", nargs="+")
    add(parser, "--out", "DIR", "The folder of the new store.", required=True)
    add_flag(parser, "--overwrite", "Replace a finished store.")


def _export(commands: Commands) -> None:
    parser = command(
        commands, "export", "cli_files:run_export",
        "Give a store to another system in its own format. Files are linked where the bytes are equal, and copied "
        "where they are not; what to put into that system's configuration is printed.",
        "data/corpus --to megatron --out data/megatron", "data/corpus --to mds --seq-len 2048 --out data/mds",
    )  # fmt: skip
    add(parser, "path", "DIR", "A store, or one of its splits.")
    add(
        parser,
        "--to",
        "FORMAT",
        "One of megatron, olmo, nanogpt, llmc, npy, sharded-bin, mds, litdata and webdataset.",
        required=True,
    )
    add(parser, "--out", "DIR", "An empty folder.", required=True)
    add_number(
        parser,
        "--seq-len",
        Positive,
        "For mds, litdata and webdataset: samples of so many tokens, not a document each.",
    )
    add_flag(parser, "--overwrite", "Replace an older export.")


def _import(commands: Commands) -> None:
    parser = command(
        commands, "import", "cli_files:run_import",
        "Make a store of another system's token files. Files are linked where the bytes are equal.",
        "train.bin --dtype uint16 --tokenizer gpt2 --out data/imported",
    )  # fmt: skip
    add(parser, "paths", "FILE", "Files of tokens: .bin, .npy, Megatron's or llm.c's, a shard each; or a folder of MDS "
        "or LitData.", nargs="+")  # fmt: skip
    add(parser, "--out", "DIR", "The folder of the new store.", required=True)
    add(parser, "--tokenizer", "NAME", "The tokenizer that made the tokens.", required=True)
    add_number(parser, "--eos", Count, "What ends a document, if not the tokenizer's own EOS.", metavar="ID")
    add(parser, "--dtype", None, "The type of files without a header: uint16, uint32, ...")
    add(parser, "--boundaries", None, "Find documents by the files' own index where there is one (auto, the default), "
        "or by EOS alone.", choices=("auto", "eos"), default="auto")  # fmt: skip
    add(parser, "--split", None, "The split that the tokens become; train by default.", choices=("train", "val"),
        default="train")  # fmt: skip
    add_flag(parser, "--overwrite", "Replace a finished store.")


def _report(commands: Commands) -> None:
    parser = command(
        commands, "report", "cli_report:run_report",
        "Show a store or a plan as one page that opens in any browser and fetches nothing: what each rule dropped with "
        "examples, the mix, lengths, duplicates; or phases, mix and epochs over a run. With --vs, what changed.",
        "data/corpus --open", "plan.json --out plan.html", "data/corpus --vs data/corpus-2024",
    )  # fmt: skip
    add(parser, "path", "PATH", "A store that Gristmill made, or the JSON of a plan.")
    add(parser, "--out", "FILE", "Where the page goes; by default report.html in the store, or beside the plan.")
    add(parser, "--vs", "OTHER", "Show what changed from this store (or plan) to PATH; into changes.html by default.")
    add_flag(parser, "--open", "Open the page in the browser of this machine.")


def _simulate(commands: Commands) -> None:
    parser = command(
        commands, "simulate", "cli_look:run_simulate",
        "Tell what a run fetches, keeps and waits for if its stores lie in a bucket, before it runs. The order is the "
        "plan's own, so that bytes and requests are those of the run; stores on this machine are taken as if they lay "
        "there too.",
        "plan.json --bandwidth 10Gbit/s --latency 30ms --step-time 400ms --ranks 8 --nodes 4",
        "plan.json --cache 200GB --per-gb 0.02 --per-1000-requests 0.0004",
    )  # fmt: skip
    add(parser, "path", "PLAN", "The JSON of a plan, as plan.save wrote it.")
    add(parser, "--bandwidth", "SPEED", "What a node receives: 50MB/s, 10Gbit/s; 100MB/s by default.")
    add(parser, "--latency", "TIME", "From a request to its first byte; 50ms by default.")
    add_number(parser, "--requests-per-second", Rate, "What the bucket lets a node ask for; no limit.", metavar="X")
    add(parser, "--step-time", "TIME", "What the model takes for a step; 100ms by default.")
    add_number(parser, "--ranks", Positive, "Processes a node that load batches; 1 by default.")
    add_number(parser, "--nodes", Positive, "Nodes of the run; 1 by default.")
    add(parser, "--cache", "SIZE", "The limit of a node's cache; none by default.")
    add_number(parser, "--steps", Positive, "Simulate this many steps; by default all of the plan's.")
    add_number(parser, "--per-gb", Amount, "What 10^9 bytes cost that leave the bucket.", metavar="X")
    add_number(parser, "--per-1000-requests", Amount, "What 1,000 requests cost.", metavar="X")


def _ledger(commands: Commands) -> None:
    parser = command(
        commands, "ledger", "cli_run:run_ledger",
        "Tell what a model has been trained on up to a step: tokens by document, source, domain and licence. It is "
        "computed from the plan, so that it holds for every run of it; skipped steps and excluded documents do not "
        "count. With --ids it answers a take-down list: which of these documents, and in which steps.",
        "run", "plan.json --until 48211 --out ledger.parquet --html ledger.html", "run --ids takedown.txt --json",
    )  # fmt: skip
    add(parser, "path", "PLAN", "The JSON of a plan, or the folder of a run.")
    add_number(parser, "--until", Positive, "Count the steps before this one; of a run by default all that it served.")
    add(parser, "--ids", "FILE", "A text file with an id a line: tell in which steps these documents were.")
    add(parser, "--out", "FILE", "Write a row a document as Parquet: its tokens, or with --ids all of its steps.")
    add(parser, "--html", "FILE", "Write the sums as a page.")


def _watch(commands: Commands) -> None:
    parser = command(
        commands, "watch", "cli_run:run_watch",
        "Look on while a training runs: tokens a second, the share of the time that it waits for data, cache hits, and "
        "the mix against its weights. It reads the record that loader.record() keeps, and ends with the run.",
        "run", "run --once", "run --json",
    )  # fmt: skip
    add(parser, "path", "RUN", "The folder in which the run is recorded.")
    add_flag(parser, "--once", "Look once, and end.")
    add_number(parser, "--seconds", Seconds, "Look again after so many; 2 s.", metavar="X", default=2.0)


def _bench(commands: Commands) -> None:
    parser = command(
        commands, "bench", "cli_machine:run_bench",
        "Measure what this machine's loader delivers from a store. It takes batches and does nothing with them, with "
        "0, 1 and 2 threads that read ahead.",
        "data/corpus --seq-len 2048 --batch-size 64",
    )  # fmt: skip
    add(parser, "paths", "PATH", "A store, or token files.", nargs="+")
    add_number(parser, "--seq-len", Positive, "Tokens a sequence; 2,048 by default.", default=2048)
    add_number(parser, "--batch-size", Positive, "Sequences a batch; 64 by default.", default=64)
    add(parser, "--cut", None, "How sequences are cut: chunk (the default), pack, pad, window.", default="chunk")
    add(parser, "--keys", "K,K", "More arrays to make: labels, doc_ids, position_ids, cu_seqlens, attention_mask.",
        default="")  # fmt: skip
    add_number(parser, "--seconds", Seconds, "How long each number of threads is measured; 3 s.", metavar="X",
               default=3.0)  # fmt: skip
    foreign_options(parser)


def _warm(commands: Commands) -> None:
    parser = command(
        commands, "warm", "cli_machine:run_warm",
        "Compile ahead what a machine's first run would compile, on all cores: for images, and for machines that start "
        "often. What is kept is used until gristmill, Numba, Python or the processor change.",
        "", "--recipe recipe.yaml --dir /opt/kernels",
    )  # fmt: skip
    add(parser, "--recipe", "FILE", "Only what a run of this recipe uses; else everything.")
    add(parser, "--dir", "DIR", "Keep it in this folder, which NUMBA_CACHE_DIR must name where it is to be used.")


def _demo(commands: Commands) -> None:
    parser = command(
        commands, "demo", "cli_machine:run_demo",
        "Show all of it in under a minute, on text that every Python has: prepare two stores, mix them, look at a "
        "batch, kill a reader and resume it, measure the loader.",
        "", "--out demo",
    )  # fmt: skip
    add(parser, "--out", "DIR", "Keep the stores in this folder; else they are removed at the end.")
