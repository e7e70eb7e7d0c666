"""A Markdown page of what the steps of a stage found."""

from pathlib import Path
from typing import Any


def write_page(path: Path, stage: str, results: list[dict[str, Any]]) -> None:
    """Write a page: a section for each step, a table for each of its tables."""
    lines = [f"# GPU: {stage}", ""]
    machines = [result["machine"] for result in results if result.get("machine")]
    lines += [machines[-1], ""] if machines else []
    for result in results:
        lines += [f"## {result['step']} ({result.get('seconds', '-')} s)", ""]
        if "error" in result:
            lines += ["**Failed**", "", "```", result["error"].strip(), "```", ""]
        for title, rows in result.get("tables", {}).items():
            lines += [f"### {title}", "", *_table(rows), ""]
    path.write_text("\n".join(lines))


def _table(rows: list[dict[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [_cell(row.get(name)) for name in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return lines if rows else ["None."]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    text = "-" if value is None else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
