#!/usr/bin/env bash
# spaCy 3.8.18, `Doc(vocab, words=...)` and the reader `spacy.Corpus.v1`.
#
# The tokenizer's exceptions do more than split: they give tokens a norm, and "ca" and "n't" of "can't"
# the norms "can" and "not". A Doc that is made of the same words has the norms "ca" and "n't". The
# norm is the first feature of spaCy's own `tok2vec`, so the two Docs have other vectors, with the
# same text and the same tokens. Docs of files of words and labels (CoNLL-2003, IOB) have
# unknown spaces, so pipelines are trained and evaluated on their words, and used on text, and no
# score shows the difference. It is there for 922 of the 1347 exceptions of English. Docs whose spaces
# are known, `Doc(..., spaces=...)`, are read by way of the tokenizer; where spaces are not known,
# set `token.norm_` in a reader of your own.
#
# Seen: text: we can not go .; words: we ca n't go .; corpus of words: we ca n't go .;
#       corpus of words and spaces: we can not go .;
#       same text True, same tokens True, same vectors False; exceptions 922 of 1347
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.18"
printf 'We O\nca O\nn'"'"'t O\ngo O\n. O\n' > words.iob
"$folder/venv/bin/python" -W ignore -m spacy convert words.iob . --converter ner -n 0 > /dev/null
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus

spacy.util.fix_random_seed(0)
nlp = spacy.blank("en")
nlp.add_pipe("tok2vec")
nlp.initialize()


def norms(doc):
    return " ".join(token.norm_ for token in doc)


def doc_of(doc):
    """A Doc of the same words and spaces."""
    words, spaces = [t.text for t in doc], [bool(t.whitespace_) for t in doc]
    return Doc(doc.vocab, words=words, spaces=spaces)


def read(path):
    (example,) = Corpus(path)(nlp)
    return norms(example.predicted)


text = nlp("We can't go.")
words = nlp(doc_of(text))
DocBin(docs=[doc_of(text)]).to_disk("spaces.spacy")
print(
    f"text: {norms(text)}; words: {norms(words)};",
    f"corpus of words: {read('words.spacy')};",
    f"corpus of words and spaces: {read('spaces.spacy')};",
)
exceptions = [nlp.make_doc(rule) for rule in nlp.tokenizer.rules]
other = sum(norms(doc) != norms(doc_of(doc)) for doc in exceptions)
print(
    f"same text {text.text == words.text},",
    f"same tokens {[t.text for t in text] == [t.text for t in words]},",
    f"same vectors {np.array_equal(text.tensor, words.tensor)};",
    f"exceptions {other} of {len(exceptions)}",
)
PY
)
echo "$seen"
test "$seen" = "text: we can not go .; words: we ca n't go .; corpus of words: we ca n't go .; corpus of words and spaces: we can not go .;
same text True, same tokens True, same vectors False; exceptions 922 of 1347"
