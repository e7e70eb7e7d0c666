#!/usr/bin/env bash
# spaCy 3.8.18, `spacy convert --converter conllu`.
#
# An underscore in CoNLL-U says that something was not annotated. `spacy convert` drops it from UPOS
# and FEATS and keeps it elsewhere: the lemma of a word without a lemma is "_", its relation is
# "_", and a word without a head is a root, so that every word is a sentence. All of it counts as
# annotation. A lemmatizer learns to answer "_", and is scored as right for it; a sentence
# recogniser learns to split after each word. Make the Docs again without what is not
# there: the lemma "" in place of "_", and neither heads nor deps.
#
# Seen: sentences ['Wir', 'gehen', 'heim', '.']; lemmas ['_', '_', '_', '_'];
#       deps ['_', '_', '_', '_']; has annotation: LEMMA True, DEP True, SENT_START True;
#       lemma_acc of right lemmas 0.0, of underscores 1.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.18"
row() { printf '%s\t%s\t_\t%s\t_\t_\t_\t_\t_\t%s\n' "$@"; }
{
  printf '# sent_id = 1\n# text = Wir gehen heim.\n'
  row 1 Wir PRON _
  row 2 gehen VERB _
  row 3 heim ADV SpaceAfter=No
  row 4 . PUNCT _
  printf '\n'
} > de.conllu
"$folder/venv/bin/python" -W ignore -m spacy convert de.conllu . --converter conllu -n 1 > /dev/null
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin
from spacy.training import Example

nlp = spacy.blank("de")
(gold,) = DocBin().from_disk("de.spacy").get_docs(nlp.vocab)


def accuracy(lemmas):
    words, spaces = [t.text for t in gold], [bool(t.whitespace_) for t in gold]
    predicted = Doc(nlp.vocab, words=words, spaces=spaces, lemmas=lemmas)
    return Scorer.score_token_attr([Example(predicted, gold)], "lemma")["lemma_acc"]


has = ", ".join(f"{name} {gold.has_annotation(name)}" for name in ("LEMMA", "DEP", "SENT_START"))
print(
    f"sentences {[sent.text for sent in gold.sents]}; lemmas {[t.lemma_ for t in gold]};",
    f"deps {[t.dep_ for t in gold]}; has annotation: {has};",
    f"lemma_acc of right lemmas {accuracy(['wir', 'gehen', 'heim', '.'])},",
    f"of underscores {accuracy(['_', '_', '_', '_'])}",
)
PY
)
echo "$seen"
expected="sentences ['Wir', 'gehen', 'heim', '.']; lemmas ['_', '_', '_', '_']; deps ['_', '_', '_', '_']; has annotation: LEMMA True, DEP True, SENT_START True; lemma_acc of right lemmas 0.0, of underscores 1.0"
test "$seen" = "$expected"
