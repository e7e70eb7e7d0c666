"""Names, docstrings, comments, messages and documents use the words of the field."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spacy_elmo"
# A word or phrase (a regular expression, upper and lower case) -> what to say instead.
PROSE = {
    r"what it has in mind": "Inspecting a model",
    r"as they are told|told of": "say who reports what to whom",
    r"anew|afresh": "again, from scratch",
    r"to the last bit": "bit for bit",
    r"go(es|ing)? on (from|with|where)": "resume, continue",
    r"halves|halved": "smaller batches",
    r"products": "matrix multiplications",
    r"pictures? (of|and tables|need|to write)|tables,? and (a )?pictures?": "plot",
    r"rests": "leftover files",
    r"its three marks|the marks": "special tokens",
    r"(is|are) forgotten": "forgetting",
    r"(?-i:RETURNS:)": "a section 'Returns:'",
    r"texts (of|that|with|were|are)": "corpus, corpora, held-out text",
    r"charged for": "scored, with the probability of",
    r"written out gradient|written-out": "explicit backward pass",
    r"a thread a direction": "one thread for each direction",
    r"an? \w+ a (line|language|direction|command|card|file)\b": "one ... per ...",
}
# Names of modules and classes, of parameters and attributes -> what to take instead.
MODULES = {
    "changes": "overrides",
    "halves": "chunks",
    "Halves": "Chunks",
    "products": "matmul",
    "Product": "Matmul",
    "texts": "corpora",
    "pictures": "plots",
}
PARAMETERS = {
    "_made": "_cached",
    "changes": "overrides",
    "factors": "dtype",
    "of": "n_rows",
}
# A docstring of a function begins with what it does, as a verb.
OPENINGS = (
    "Of ", "As ", "By ", "One ", "The same ", "Those ", "What ", "Not ", "To ", "Who ",
    "Whose ", "Where ", "Which ", "All ", "Another ", "Inside", "RETURNS:", "Raises ",
)  # fmt: skip
# What is still to be put in the field's words.
OPEN = {}


def name(path):
    return path.relative_to(ROOT).as_posix()


CODE = sorted(
    path
    for folder in ("spacy_elmo", "benchmarks", "experiments")
    for path in (ROOT / folder).rglob("*.py")
)
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "*.yml", "docs/**/*.md", "configs/*.cfg", "experiments/*.*")
    for path in ROOT.glob(pattern)
    if path.suffix in (".md", ".yml", ".cfg") and path.name != "CHANGELOG.md"
)
FILES = [*CODE, *DOCUMENTS]


def prose(path):
    """Return the words of a file: of code its strings and comments alone."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = {tokenize.STRING, tokenize.COMMENT}
    kinds.add(getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    # What a line begins with ("#", quotes, white space) does not part a phrase.
    joined = " ".join(token.string for token in tokens if token.type in kinds)
    return re.sub(r"[\s#\"']+", " ", joined)


def private_names(path):
    """Yield the names that a module should not define, with what to take instead."""
    if path.stem in MODULES:
        yield path.stem, MODULES[path.stem]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name in MODULES:
            yield node.name, MODULES[node.name]
        elif isinstance(node, ast.arg) and node.arg in PARAMETERS:
            yield node.arg, PARAMETERS[node.arg]
        elif isinstance(node, ast.Attribute) and node.attr in PARAMETERS:
            yield node.attr, PARAMETERS[node.attr]


def openings(path):
    """Yield how the docstrings of the functions of a module begin."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            if text.startswith(OPENINGS) or text[:1].islower():
                yield f"{node.name}: {text.splitlines()[0]}"


def faults(path):
    found = []
    text = prose(path)
    for pattern, instead in PROSE.items():
        for match in re.finditer(rf"\b(?:{pattern})(?!\w)", text, re.IGNORECASE):
            context = text[max(0, match.start() - 30) : match.end() + 30]
            found.append(f"'{match[0]}' in '... {context} ...': {instead}")
    if path.suffix == ".py":
        pairs = sorted(set(private_names(path)))
        found += [f"the name '{name}': {instead}" for name, instead in pairs]
    if path.is_relative_to(PACKAGE):
        found += openings(path)
    return found


@pytest.mark.parametrize("path", FILES, ids=name)
def test_words_are_the_fields(path):
    if name(path) in OPEN:
        pytest.skip("still to be put in the field's words")
    assert not faults(path)
