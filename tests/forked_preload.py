"""What a fork server has done before it forks: all work of `forked.py`."""

import tempfile
from pathlib import Path

from .forked import Work

work = Work(Path(tempfile.mkdtemp()))
expected = work()
