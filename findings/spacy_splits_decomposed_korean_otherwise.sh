#!/usr/bin/env bash
# spaCy 3.8.14, spacy.blank("xx") (its rules are those of most languages).
#
# Two words that are joined by a full stop, as in hasty Korean text, are three tokens in
# NFC and one in NFD (text from macOS): the classes of letters that the rules for the
# inside of words name hold Hangul syllables, but no letters of decomposed ones. So a
# Doc of NFD text can have other tokens than one of the same text in NFC, and labels by
# token do not fit. It is 29 of 4,568 lines of a Korean corpus of reviews and others.
#
# Seen: 3 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.14" 2> /dev/null
seen=$("$folder/venv/bin/python" -c '
import unicodedata
import spacy
nlp = spacy.blank("xx")
text = "\ub05d\ub0ac\ub2e4.\uc774"
print(*(len(nlp(unicodedata.normalize(form, text))) for form in ("NFC", "NFD")))
')
echo "$seen"
test "$seen" = "3 1"
