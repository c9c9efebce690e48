"""The start-up check: a fixed sample through the fast backend and the reference, then back to text."""

from __future__ import annotations

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.hashing import hash64
from gristmill.tokenize.backends import Ids
from gristmill.tokenize.definition import Json, special_texts

SAMPLE = (
    "Hello world",
    "The quick brown fox can't, won't and DIDN'T jump; we'll see what they've done. I'M SURE IT'S 'quoted'.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Ça va, señor? İstanbul, \u017f.",
    "Съешь же ещё этих мягких французских булок. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "שלום עולם، مرحبا بالعالم ١٢٣٤٥ हिन्दी में १२३ ฉันกินกระจกได้",
    "我能吞下玻璃而不伤身体。私はガラスを食べられます。나는 유리를 먹을 수 있어요.",
    "e\u0301 o\u0308 n\u0303 a\u030a\u0323 \ufb01 \u2460 \u00bd \u00b2 \ud55c \u1112\u1161\u11ab",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 ☃️ 🤷‍♀️ and \U0001d56c\U0001d591\U0001d595 𐍈 \U0001f9ff\U000e0067",
    "0 1 12 123 1234 12345 1234567890 3.14159 -1e-10 0xDEADBEEF 1,000,000 v2.0.1 2026-11-15T12:34Z ²³ ⅷ",
    "def f(x: int = 0) -> str:\n    if x >= 1:\n\t\treturn f'{x!r:>8}'\n\n\n    return \"\\n\".join([])\n",
    "#include <stdio.h>\r\nint main(void) { return a[i]++ ? b->c : ~d; }\r\n\r\n// //// === *** --- ???\n",
    '{"key": [null, true, -1.5e3], "url": "https://example.org/a?b=c&d=%20#e"} <a href=\'x\'>y</a></s><s>',
    " leading",
    "trailing ",
    "  two",
    "a  b   c    d        e                                f",
    "\t\t tabs \t \t",
    "\n",
    "\n\n\n  \n \n",
    "   ",
    "\r\n\r\n",
    "a\n\nb\r\nc\rd\u0085e\u2028f\u2029g\u00a0h\u3000i\u200bj\ufeffk",
    "\x00 \x01\x7f \u00ad \ufffd \ufffe \ufffc",
    "a" * 150,
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "<|endoftext|>",
    "a<|endoftext|>b <|endoftext|> c\n<|endoftext|>\n<|endoftext|><|endoftext|><|endoftext|",
    "</s> <s> <unk> <pad> <eos> <bos> [SEP] [CLS] <|im_start|>user <|im_end|> <|eot_id|> <|fim_prefix|>",
    "",
)


def sample_for(content: Json, eos: int) -> list[str]:
    """The fixed sample, and the literal text of this tokenizer's own special and added tokens."""
    added = [token["content"] for token in content.get("added_tokens") or []]
    texts = sorted({*special_texts(content, eos), *added})
    own = [setting.format(text) for text in texts[:64] for setting in ("{0}", "word{0}word", "a {0} b\n{0}")]
    return [*SAMPLE, *own, "".join(texts), " ".join(texts)]


def digest(ids: Ids, offsets: Ints) -> int:
    """One number for the encoded sample: a rebuilt encoder must give the same."""
    return hash64(ids.astype("<u4").tobytes() + offsets.astype("<i8").tobytes())


def require_equal(texts: list[str], got: tuple[Ids, Ints], want: tuple[Ids, Ints], who: str, then: str) -> None:
    """ConfigError with the first text, and the first token in it, on which two backends differ; `then` is the help."""
    for row, text in enumerate(texts):
        ours, theirs = _row(got, row), _row(want, row)
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            at = min(len(ours), len(theirs)) if at is None else at
            raise ConfigError(
                f"{who} differ on the start-up sample: token {at} of {text[:60]!r} is "
                f"{_token(ours, at)} against {_token(theirs, at)}; {then}"
            )


def require_same_text(text: str, decoded: str, name: str) -> None:
    """ConfigError where a text does not come back from its ids."""
    if text != decoded:
        raise ConfigError(f"The tokenizer {name}: the sample {text[:60]!r} came back from its ids as {decoded[:60]!r}.")


def _row(encoded: tuple[Ids, Ints], row: int) -> list[int]:
    ids, offsets = encoded
    row_ids: list[int] = ids[offsets[row] : offsets[row + 1]].tolist()
    return row_ids


def _token(ids: list[int], at: int) -> str:
    return str(ids[at]) if at < len(ids) else "missing"
