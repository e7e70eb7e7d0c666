"""The benchmark of `embed` measures all that it says, on a small model."""

import pytest

from benchmarks import embed

from ..embed.corpora import save_model


@pytest.mark.slow
def test_speed_memory_and_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(embed, "MANY_SHARDS", 1000)
    model = save_model(tmp_path / "model")
    _, one, two = embed.speed(model, tmp_path, 4000, 1, with_ray=False)
    assert one["tokens/s"] > 0 and two["run"] == "2 processes"
    short, long = embed.memory(model, tmp_path, 4000, "doc")
    assert short["tokens"] == long["tokens"] == 4000
    again, large = embed.starting(model, tmp_path)
    assert again["seconds"] < 10 and large["plan.json"].endswith("B")
    rows = embed.on_paper(embed.load_model(model), 1000.0)
    assert (
        len(rows) == 18 and rows[0]["10^9"] == "151 GB" and rows[0]["10^12"] == "151 TB"
    )
    assert rows[0]["hours 10^12"] == 10**9 / 3600
