"""What an attack did and found: counts, one row of a table, and JSON."""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from spacy_elmo.machine import describe_cpu

SAID = 3000  # characters of a finding that are kept


@dataclass
class Run:
    """A run of one attack, which ends when its time is up or all is done.

    Attributes:
        attack: Its name.
        minutes: How long it runs at most.
        seed: Of all random choices.
        count: How many cases it tries at most; None for as many as time allows.
        output: Folder for what it leaves: JSON, and the files of findings.
        counts: What was done, by name, in the order in which it happened.
        findings: What should not have happened.
    """

    attack: str
    minutes: float
    seed: int
    count: int | None = None
    output: Path = Path("build/attacks")
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float:
        """How long it may run yet."""
        return max(0.0, 60 * self.minutes - self.seconds)

    def goes_on(self, done: int) -> bool:
        """Return whether there is time, and cases are left, after some are done."""
        return self.seconds_left > 0 and (self.count is None or done < self.count)

    def random(self, *names: object) -> random.Random:
        """Return a generator for a part of the attack, which is named."""
        return random.Random("/".join(map(str, (self.attack, self.seed, *names))))

    def finding(self, text: str) -> None:
        """Note what should not have happened, and say it at once."""
        self.findings.append(text[:SAID])
        print(f"FOUND ({self.attack}): {text[:SAID]}", flush=True)

    def row(self) -> str:
        """Return a row: attack, counts, findings, time, processor, command."""
        counts = ", ".join(f"{n:,} {name}" for name, n in self.counts.items())
        notes = "".join(f"; {name} {value}" for name, value in self.notes.items())
        command = f"python -m attacks {self.attack} --minutes {self.minutes:g}"
        command += f" --seed {self.seed}"
        if self.count is not None:
            command += f" --count {self.count}"
        cells = [self.attack, counts + notes, len(self.findings)]
        cells += [f"{self.seconds:.0f} s", describe_cpu(), f"`{command}`"]
        return f"| {' | '.join(map(str, cells))} |"

    def write(self) -> None:
        """Print the row, and write everything as JSON."""
        print(self.row(), flush=True)
        self.output.mkdir(parents=True, exist_ok=True)
        content = {
            "attack": self.attack,
            "minutes": self.minutes,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "processor": describe_cpu(),
            "counts": self.counts,
            "notes": self.notes,
            "findings": self.findings,
        }
        path = self.output / f"{self.attack}-{self.seed}.json"
        path.write_text(json.dumps(content, indent=2, default=str))
