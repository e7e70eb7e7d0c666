"""`python . NAME` in this folder runs the module of `python -m experiments.NAME` in the
clone, with the paths of this folder."""

import runpy
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])
files = Path(__file__).parent.glob("[a-z]*.py")
commands = [f.stem for f in files if "__main__" in f.read_text(encoding="utf-8")]
modules = sorted([*commands, "pipelines", "text"])
if len(sys.argv) < 2 or (sys.argv[1] not in modules and "." not in sys.argv[1]):
    sys.exit(f"usage: python . NAME ..., of {', '.join(modules)}")
name = sys.argv.pop(1)
module = name if "." in name else f"experiments.{name}"
runpy.run_module(module, run_name="__main__", alter_sys=True)
