"""What to measure first on a machine with a GPU, in two commands of under 8 minutes.

    python3 -m benchmarks.gpu_first_half_hour bilm --bundle .gpu-bundle --output OUT
    python3 -m benchmarks.gpu_first_half_hour pipeline --bundle .gpu-bundle --output OUT

The machine may be bare: without a network, without spaCy, with a torch, Triton, CuPy
and Python of its own. `make gpu-bundle` packs what is missing there. "bilm" measures
the biLM, its kernels and training, and needs no spaCy; "pipeline" measures
`Doc.tensor`, listeners and `nlp.pipe`.

Every step runs after the others whatever becomes of them. OUT/STAGE.json and
OUT/STAGE.md are written after each. This module imports the standard library alone.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from .gpu import bundle, runner

ROOT = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Run a stage. Return the number of steps that failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stage", choices=("bilm", "pipeline"))
    parser.add_argument("--output", type=Path, required=True, help="Folder of results")
    parser.add_argument("--bundle", type=Path, help="Folder of 'make gpu-bundle'")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=460, help="Of all steps")
    parser.add_argument("--only", nargs="*", default=[], help="Names of steps")
    tiny = "Sizes that a CPU takes seconds for, to try the command"
    parser.add_argument("--tiny", action="store_true", help=tiny)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        if options.bundle is not None:
            bundle.unpack(options.bundle, site, ROOT)
        stage = runner.Stage(
            options.stage, options.device, options.output, options.tiny, options.seconds
        )
        results = runner.run_stage(stage, ROOT, site, only=options.only)
    failed = [result["step"] for result in results if "error" in result]
    print(f"{len(results)} steps, failed: {', '.join(failed) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
