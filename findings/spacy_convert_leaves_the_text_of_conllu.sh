#!/usr/bin/env bash
# spaCy 3.8.14, `spacy convert --converter conllu`.
#
# A Doc that is made of CoNLL-U has no `# text`. Its text is joined from the syntactic
# words, and those of a multiword token without spaces: "Vámonos al mar." becomes
# "Vamosnos ael mar." So character offsets of annotation that was made on the text of
# the sentence point to other words after the first such token. English treebanks hide
# it, since their multiword tokens ("don't") are spelled as their words are.
#
# Seen: Vamosnos ael mar.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14"
cd "$folder"
row() { printf '%s\t%s\t_\t%s\t_\t_\t%s\t%s\t_\t%s\n' "$1" "$2" "$3" "$4" "$5" "$6"; }
{
  printf '# sent_id = 1\n# text = Vámonos al mar.\n'
  printf '1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_\n'
  row 1 Vamos VERB 0 root _
  row 2 nos PRON 1 obj _
  printf '3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_\n'
  row 3 a ADP 5 case _
  row 4 el DET 5 det _
  row 5 mar NOUN 1 obl SpaceAfter=No
  row 6 . PUNCT 1 punct SpaceAfter=No
  printf '\n'
} > es.conllu
mkdir out
venv/bin/python -m spacy convert es.conllu out --converter conllu -n 1 > /dev/null
seen=$(venv/bin/python -c '
import spacy
from spacy.tokens import DocBin
(doc,) = DocBin().from_disk("out/es.spacy").get_docs(spacy.blank("es").vocab)
print(doc.text)
')
echo "$seen"
test "$seen" = "Vamosnos ael mar."
