"""How much room on the disk is asked for."""

import gzip
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from spacy_elmo import embed
from spacy_elmo.embed import run

from .corpora import SMALL, make_plan, shards


def test_too_little_room_is_refused(tmp_path, model, text, monkeypatch):
    plan, _ = make_plan(model, [text], tmp_path / "first", layers="all")
    assert 0.5 < plan.estimate["tokens"] / open_tokens(tmp_path / "first") < 2

    def usage(path):
        return SimpleNamespace(free=plan.estimate["bytes"] // 2)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    with pytest.raises(
        OSError, match=r"EL203.*average --save-precision int8 --pool doc"
    ) as e:
        make_plan(model, [text], tmp_path / "out", layers="all")
    assert "float16 --pool token" in str(e.value)
    assert not (tmp_path / "out/plan.json").exists()
    with pytest.raises(OSError, match="EL203"):
        run(tmp_path / "first")
    make_plan(model, [text], tmp_path / "out", pool="doc")


def open_tokens(output):
    run(output)
    tokens = embed.open(output).n_tokens
    shutil.rmtree(output / "shards")
    return tokens


def test_a_packed_input_needs_room_for_what_is_missing(
    tmp_path, model, text, monkeypatch
):
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(Path(text).read_bytes()))
    output = tmp_path / "out"
    plan, _ = make_plan(model, [str(packed)], output, shard_mb=SMALL / 4)
    run(output)
    before = shards(output)
    assert plan.n_jobs == 1 and len(before) > 4
    (output / "shards" / min(before)).unlink()
    free = plan.estimate["bytes"] // 2
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    run(output)
    assert shards(output) == before


def test_a_limit_bounds_what_a_packed_input_takes(tmp_path, model, text):
    content = Path(text).read_bytes()
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(
        gzip.compress(random.Random(0).randbytes(1 << 20).hex().encode())
    )
    packed.write_bytes(gzip.compress(content) + packed.read_bytes())
    output = tmp_path / "out"
    plan, _ = make_plan(model, [str(packed)], output, limit_mb=len(content) / (1 << 20))
    run(output)
    n_tokens = embed.open(output).n_tokens
    assert plan.estimate["tokens"] < 20 * n_tokens < packed.stat().st_size / 4
