"""Tokenizers that come as a `tokenizer.json`: a file, a directory that holds one, or a Hugging Face name.

The file does not say which token ends a document. It is taken from `eos=`, else from the
`tokenizer_config.json` beside it, else from the added tokens, where exactly one bears a name in common use;
nothing is guessed beyond that.
"""

from __future__ import annotations

from pathlib import Path

from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.values import check_kinds, parse_json
from gristmill.places.door import place_at
from gristmill.tokenize.backends import LibraryErrors
from gristmill.tokenize.definition import Definition, Json, require_unreachable_eos, vocab_size, vocabulary

EOS_NAMES = (
    "<|endoftext|>",
    "</s>",
    "<|end_of_text|>",
    "<eos>",
    "<|eos|>",
    "<EOT>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
_LARGEST = 1 << 30


def local_definition(path: Path, eos: int | str | None) -> Definition:
    """The tokenizer in a `tokenizer.json`, or in the directory that holds one."""
    file = path / "tokenizer.json" if place_at(path).is_folder() else path
    if not place_at(file).is_file():
        raise ConfigError(f"{path} holds no tokenizer.json: give the path of a tokenizer.json file")
    folder = Path(place_at(file.parent).real()).name
    name = folder if file.name == "tokenizer.json" and folder else file.name
    return _definition(name, file, file.parent / "tokenizer_config.json", eos)


def hub_definition(name: str, eos: int | str | None) -> Definition:
    """The tokenizer of a Hugging Face repository: from the local cache, else from the network."""
    file = _hub_file(name, "tokenizer.json")
    if file is None:
        raise ConfigError(
            f"tokenizer {name}: no such path here, and neither Hugging Face's cache nor the network has its "
            f"tokenizer.json; bring that file to this machine and give its path"
        )
    return _definition(name, file, _hub_file(name, "tokenizer_config.json"), eos)


def _hub_file(repository: str, file: str) -> Path | None:
    from huggingface_hub import hf_hub_download  # needed for names on the hub alone
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError

    for cached_only in (True, False):
        try:
            return Path(hf_hub_download(repository, file, local_files_only=cached_only))
        except (OSError, EntryNotFoundError, HFValidationError):
            continue
    return None


def _definition(name: str, file: Path, config: Path | None, eos: int | str | None) -> Definition:
    text = _text(file)
    definition = Definition(name, text, -1, "tokenizers")
    content = _checked_content(definition, file)
    id = _eos_id(content, _config_eos(config) if eos is None else eos, name)
    require_unreachable_eos(content, id, name)
    return Definition(name, text, id, "tokenizers")


def _text(file: Path) -> str:
    if (size := place_at(file).size()) > _LARGEST:
        raise ConfigError(f"{file} has {size:,} bytes: no tokenizer.json is that large.")
    try:
        return place_at(file).read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not JSON: it is not even text in UTF-8 ({error.reason}).") from error


def _checked_content(definition: Definition, file: Path) -> Json:
    """The content, once the tokenizers library has accepted it, ids and all."""
    from tokenizers import Tokenizer  # not for tokenizers that have a name

    with LibraryErrors(f"{file} is not a tokenizer.json that the tokenizers library reads"):
        theirs = Tokenizer.from_str(definition.json)
        content = definition.content
    for token in content.get("added_tokens") or []:
        text, id = token["content"], theirs.token_to_id(token["content"])
        if id != token["id"]:
            raise ConfigError(f"{file}: the added token {text!r} has id {token['id']} but is read as {id}")
    return content


def _config_eos(config: Path | None) -> str | None:
    """`eos_token` of a `tokenizer_config.json`: a string, or an object that holds one."""
    if config is None or not place_at(config).is_file():
        return None
    values = parse_json(_text(config), str(config))
    token = values.get("eos_token") if isinstance(values, dict) else None
    found = token.get("content") if isinstance(token, dict) else token
    check_kinds({"eos_token": found}, {"eos_token": str | None}, str(config))
    return found


def _eos_id(content: Json, wanted: int | str | None, name: str) -> int:
    ids = vocabulary(content)
    if isinstance(wanted, int):
        if wanted not in ids.values():
            raise ConfigError(f"The tokenizer {name}: eos={wanted} is none of its {vocab_size(content)} ids.")
        return wanted
    if wanted is None:
        wanted = _common_eos(content, name)
    if wanted not in ids:
        added = [token["content"] for token in content.get("added_tokens") or []]
        raise ConfigError(f"The tokenizer {name}: no token {wanted!r} to end documents{did_you_mean(wanted, added)}.")
    return ids[wanted]


def _common_eos(content: Json, name: str) -> str:
    """The one added token with a usual name. Ordinary pieces do not count: `</s>` is also a tag of HTML."""
    added = [token["content"] for token in content.get("added_tokens") or []]
    found = [text for text in EOS_NAMES if text in added]
    if len(found) == 1:
        return found[0]
    state = f"several could end a document ({', '.join(found)})" if found else "none has a usual name for it"
    offer = f"; its added tokens: {', '.join(added[:20])}" if added else ""
    raise ConfigError(f"The tokenizer {name}: which token ends a document? {state}: give eos= (token or id){offer}.")
