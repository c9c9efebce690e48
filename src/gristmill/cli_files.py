"""The commands that move finished tokens: index, join, export, import."""

from __future__ import annotations

import argparse

from gristmill.cli_options import answer, progress_bar
from gristmill.core.errors import ConfigError
from gristmill.figures.store import store_figures
from gristmill.indexing import index, index_documents
from gristmill.places.door import address_of
from gristmill.show.reports import show_exchange
from gristmill.show.store import show_store
from gristmill.show.terminal import line
from gristmill.store.exchange import join
from gristmill.store.export import export_store
from gristmill.store.opening import open_store


def run_index(chosen: argparse.Namespace) -> None:
    paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
    store = open_store(paths, chosen.dtype, chosen.eos, chosen.index_dir)
    with progress_bar(chosen) as bar:
        if chosen.seq_len is not None:
            options = {"range_documents": chosen.range_documents, "force": chosen.force}
            made = [index(store, chosen.seq_len, **options, progress=bar)]
        elif chosen.eos is not None:
            made = index_documents(store, force=chosen.force, progress=bar)
        else:
            raise ConfigError("index needs --seq-len (a pack index) or --eos (the documents of bare token files).")
    names = [str(path) for path in made]
    answer(chosen, {"files": names, **bar.figures}, lambda: line("\n".join(names)))


def run_join(chosen: argparse.Namespace) -> None:
    join(chosen.paths, chosen.out, overwrite=chosen.overwrite)
    figures = store_figures(address_of(chosen.out))
    answer(chosen, figures.to_dict(), lambda: show_store(figures))


def run_export(chosen: argparse.Namespace) -> None:
    with progress_bar(chosen) as bar:
        options = {"seq_len": chosen.seq_len, "overwrite": chosen.overwrite}
        report = export_store(chosen.path, chosen.to, chosen.out, progress=bar, **options)
    answer(chosen, {**vars(report), **bar.figures}, lambda: show_exchange(report, bar.took()))


def run_import(chosen: argparse.Namespace) -> None:
    from gristmill.importing import import_tokens  # which imports Arrow, by tokenizers

    options = {name: getattr(chosen, name) for name in ("eos", "dtype", "boundaries", "overwrite")}
    with progress_bar(chosen) as bar:
        paths = chosen.paths[0] if len(chosen.paths) == 1 else chosen.paths
        report = import_tokens(paths, chosen.out, chosen.tokenizer, split=chosen.split, progress=bar, **options)
    answer(chosen, {**vars(report), **bar.figures}, lambda: show_exchange(report, bar.took()))
