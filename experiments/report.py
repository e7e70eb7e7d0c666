"""One table of scores with and without ELMo, from the files of `spacy evaluate`."""

import json
from pathlib import Path

import typer
from wasabi import msg

SCORES = {"tagger": ("tagger, accuracy", "tag_acc"), "ner": ("ner, F1", "ents_f")}


def rows(metrics: Path) -> list[tuple[str, str, str, str]]:
    """Task, score without and with ELMo, and errors saved, in per cent."""
    found = []
    for task, (title, key) in SCORES.items():
        without, with_elmo = (
            json.loads((metrics / f"{task}_{side}.json").read_text(encoding="utf-8"))[
                key
            ]
            for side in ("baseline", "elmo")
        )
        saved = (with_elmo - without) / max(1e-9, 1 - without)
        found.append((title, f"{without:.2%}", f"{with_elmo:.2%}", f"{saved:+.1%}"))
    return found


def main(
    metrics: Path = typer.Argument(..., help="Folder with the metrics"),
    output: Path = typer.Argument(..., help="Markdown file to write"),
) -> None:
    header = ("", "without ELMo", "with ELMo", "errors saved")
    body = rows(metrics)
    lines = ["| " + " | ".join(row) + " |" for row in (header, ("---",) * 4, *body)]
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    msg.table(body, header=header, divider=True)


if __name__ == "__main__":
    typer.run(main)
