#!/usr/bin/env bash
# confection 1.3.4, `registry.resolve`.
#
# The types of a registered function's arguments are checked, with the rules that turn texts
# into numbers: "7" passes for an int, and "x" is refused. But the function gets what the
# configuration has, not what the check has made of it: "7" arrives as a text, ["5"] as a
# list of texts. Convert in the function, for instance by pydantic's `validate_call`.
#
# Seen: n '7', sizes ['5'], 'x' refused
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "confection==1.3.4" "catalogue==2.0.10"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import catalogue
import confection


class Registry(confection.registry):
    makers = catalogue.create("probe", "makers", entry_points=False)


@Registry.makers("probe.v1")
def make(n: int, sizes: list[int]):
    return n, sizes


def resolve(n):
    text = f'[made]\n@makers = "probe.v1"\nn = {n}\nsizes = ["5"]\n'
    return Registry.resolve(confection.Config().from_str(text))["made"]


n, sizes = resolve('"7"')
try:
    resolve('"x"')
    found = "taken"
except confection.ConfigValidationError:
    found = "refused"
print(f"n {n!r}, sizes {sizes!r}, 'x' {found}")
PY
)
echo "$seen"
test "$seen" = "n '7', sizes ['5'], 'x' refused"
