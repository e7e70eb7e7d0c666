"""The evaluation texts as numbers, so that they are kept out without being here.

`seen/NAME.xz` has, per language, the runs of ten words of all evaluation texts and
their sentences of five to nine words, as differences of sorted numbers, byte by byte.
"""

import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from .runs import Numbers, all_runs, short_sentences

SEEN = Path(__file__).parent / "seen"
_BYTES = 5

# Files in the evaluation folder, in these folders or in none: the project's assets, and
# the treebanks of PUD (UniversalDependencies/UD_English-PUD, UniversalNER/
# UNER_English-PUD). EWT's training part may be in the corpus.
FILES = {
    "english": (
        "ewt-pos/en_ewt-ud-dev.conllu",
        "ewt-pos/en_ewt-ud-test.conllu",
        "ewt-ner/en_ewt-ud-dev.iob2",
        "ewt-ner/en_ewt-ud-test.iob2",
        "pud-pos/en_pud-ud-test.conllu",
        "pud-ner/en_pud-ud-test.iob2",
        "wnut17/wnut17train.conll",
        "wnut17/emerging.dev.conll",
        "wnut17/emerging.test.annotated",
        "ncbi-disease/train.tsv",
        "ncbi-disease/devel.tsv",
        "ncbi-disease/test.tsv",
        "wsd-noad.tar.xz",
    ),
    "korean": (
        "ko-gsd-pos/ko_gsd-ud-train.conllu",
        "ko-gsd-pos/ko_gsd-ud-dev.conllu",
        "ko-gsd-pos/ko_gsd-ud-test.conllu",
    ),
    # Of UD_German-GSD the files of at most 4 MiB; UD_German-PUD, UNER_German-PUD;
    # ixa-ehu/ner-evaluation-corpus-europarl; EuropeanaNewspapers/ner-corpora.
    "german": (
        "de_gsd-ud-dev.conllu",
        "de_gsd-ud-test.conllu",
        "de_pud-ud-test.conllu",
        "de_pud-ud-test.iob2",
        "de-europarl.test.conll02",
        "enp_DE.lft.bio",
        "enp_DE.onb.bio",
        "enp_DE.sbb.bio",
    ),
    # UD_French-Sequoia and UD_French-PUD; EuropeanaNewspapers/ner-corpora.
    "french": (
        "fr_sequoia-ud-train.conllu",
        "fr_sequoia-ud-dev.conllu",
        "fr_sequoia-ud-test.conllu",
        "fr_pud-ud-test.conllu",
        "enp_FR.bnf.bio",
    ),
    # Of UD_Spanish-GSD the files of at most 4 MiB; UD_Spanish-PUD;
    # ixa-ehu/ner-evaluation-corpus-europarl.
    "spanish": (
        "es_gsd-ud-dev.conllu",
        "es_gsd-ud-test.conllu",
        "es_pud-ud-test.conllu",
        "es-europarl.test.conll02",
    ),
    # UD_Portuguese-Bosque, which UNER_Portuguese-Bosque annotates; UD_Portuguese-PUD.
    "portuguese": (
        "pt_bosque-ud-train.conllu",
        "pt_bosque-ud-dev.conllu",
        "pt_bosque-ud-test.conllu",
        "pt_pud-ud-test.conllu",
    ),
}


def write(language: str, evaluation: Path) -> tuple[int, int]:
    """Write the numbers of a language's evaluation texts; how many runs and short
    sentences there are."""
    paths = [_find(evaluation, Path(name)) for name in FILES[language]]
    lines = [line for path in paths for line in sentences(path)]
    runs, short = all_runs(lines), short_sentences(lines)
    SEEN.mkdir(exist_ok=True)
    packed = len(runs).to_bytes(8, "little") + _packed(runs) + _packed(short)
    (SEEN / f"{language}.xz").write_bytes(lzma.compress(packed, preset=9))
    return len(runs), len(short)


def _find(evaluation: Path, name: Path) -> Path:
    """Return the path of a file, or raise FileNotFoundError."""
    path = evaluation / name
    return path if path.exists() else (evaluation / name.name).resolve(strict=True)


def read(language: str) -> tuple[Numbers, Numbers]:
    """Runs of ten words, and whole sentences of five to nine."""
    packed = lzma.decompress((SEEN / f"{language}.xz").read_bytes())
    cut = 8 + _BYTES * int.from_bytes(packed[:8], "little")
    return _unpacked(packed[8:cut]), _unpacked(packed[cut:])


def _packed(numbers: Numbers) -> bytes:
    steps = np.diff(numbers, prepend=np.uint64(0)).astype("<u8")
    return steps.view(np.uint8).reshape(-1, 8)[:, :_BYTES].T.tobytes()


def _unpacked(data: bytes) -> Numbers:
    planes = np.frombuffer(data, np.uint8).reshape(_BYTES, -1)
    steps = np.zeros((planes.shape[1], 8), np.uint8)
    steps[:, :_BYTES] = planes.T
    return np.cumsum(steps.view("<u8").ravel(), dtype=np.uint64)


def sentences(path: Path) -> Iterator[str]:
    """The sentences of an evaluation file: CoNLL-U with `# text`, columns with empty
    lines between sentences, or the archive of the sense corpora."""
    if path.suffix == ".xz":
        yield from _sense_corpora(path)
    elif path.suffix == ".conllu":
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("# text = "):
                yield line.removeprefix("# text = ")
    elif path.suffix == ".bio":
        # Words of newspapers without an end of a sentence: one long line.
        rows = path.read_text("utf-8").splitlines()
        yield _joined([row.split(" ")[0] for row in rows if row[:2].strip() != "#"])
    else:
        column = 1 if path.suffix == ".iob2" else 0
        tokens: list[str] = []
        for line in path.read_text("utf-8").splitlines():
            if line.strip() and not line.startswith("# "):
                tokens.append(line.split("\t")[column])
            elif tokens:
                yield _joined(tokens)
                tokens = []
        if tokens:
            yield _joined(tokens)


def _joined(tokens: list[str]) -> str:
    """Tokens as text, in that "did n't" and "he 's" are one word each."""
    line = ""
    for token in tokens:
        glued = token.lower() == "n't" or (token[0] in "'’" and len(token) > 1)
        line += token if glued or not line else f" {token}"
    return line


def _sense_corpora(path: Path) -> Iterator[str]:
    with tarfile.open(path) as files:
        for member in files:
            file = files.extractfile(member) if member.name.endswith(".xml") else None
            if file is None:
                continue
            tokens: list[str] = []
            for word in ElementTree.parse(file).iter("word"):
                if word.get("break_level") == "SENTENCE_BREAK" and tokens:
                    yield _joined(tokens)
                    tokens = []
                tokens.append(word.get("text") or " ")
            if tokens:
                yield _joined(tokens)
