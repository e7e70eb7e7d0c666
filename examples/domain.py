"""A biLM before and after it has read the text of a domain: perplexity of other text.

    python examples/domain.py
    python examples/domain.py --train mine.txt --dev held_out.txt

The text is the demo corpus, which is small: a domain takes millions of tokens.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "assets" / "demo"


def elmo(*arguments: str) -> str:
    """Run `python -m spacy elmo`, and return what it prints."""
    command = [sys.executable, "-m", "spacy", "elmo", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def perplexity(model: str, text: Path) -> float:
    """Return the mean perplexity of a text in both directions."""
    return json.loads(elmo("perplexity", model, str(text), "--json"))["mean"]


def main(train: Path, dev: Path, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = perplexity("en_elmo_sm", dev)
        elmo(
            *("pretrain", str(ROOT / "configs" / "pretrain_demo.cfg")),
            *("--output", folder, "--training.max_steps", str(steps)),
            *("--text.train", json.dumps([str(train)])),
            *("--text.dev", json.dumps([str(dev)])),
        )
        after = perplexity(str(Path(folder) / "model-best"), dev)
    print(f"perplexity of {dev.name}: {before:.1f} before, {after:.1f} after")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=Path, default=DEMO / "train.txt")
    parser.add_argument("--dev", type=Path, default=DEMO / "dev.txt")
    parser.add_argument("--steps", type=int, default=80)
    arguments = parser.parse_args()
    main(arguments.train, arguments.dev, arguments.steps)
