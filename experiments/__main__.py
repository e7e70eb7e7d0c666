"""`python . NAME` in this folder is `python -m experiments.NAME` in the clone."""

import runpy
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])
name = sys.argv.pop(1)
module = name if "." in name else f"experiments.{name}"
runpy.run_module(module, run_name="__main__", alter_sys=True)
