#!/usr/bin/env bash
# tokenizers 0.22.1 (normalizers.NFC and NFKC), and Python's unicodedata, which agree.
#
# Korean chat writes bare letters ("ㅋㅋㅋ", "ㅎㅏㄴ") with compatibility jamo (U+3131 to
# U+318E), as a keyboard gives them. NFC leaves them as they are, and does not compose
# them. NFKC turns each consonant into a letter that begins a syllable (U+110F for "ㅋ"),
# also where it ends one: "ㅎㅏㄴ" becomes "하" and a beginning "ᄂ", not "한". So a
# tokenizer that normalises by NFKC looks up other characters for "ㅋㅋㅋ" than stand in
# a vocabulary that was made without it, although the text looks the same. Half-width
# letters (U+FFA1 ...) go the same way.
#
# Seen: 314b314b314b 110f110f110f / 314e314f3134 d5581102 / ffbeffc2ffa4 d5581102
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "tokenizers==0.22.1"
seen=$("$folder/venv/bin/python" -c '
import unicodedata
from tokenizers import normalizers
rows = []
for text in ("\u314b\u314b\u314b", "\u314e\u314f\u3134", "\uffbe\uffc2\uffa4"):
    both = []
    for form in ("NFC", "NFKC"):
        found = getattr(normalizers, form)().normalize_str(text)
        assert found == unicodedata.normalize(form, text)
        both.append("".join(f"{ord(c):04x}" for c in found))
    rows.append(" ".join(both))
print(" / ".join(rows))
')
echo "$seen"
test "$seen" = "314b314b314b 110f110f110f / 314e314f3134 d5581102 / ffbeffc2ffa4 d5581102"
