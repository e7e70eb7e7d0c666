"""Files of a layer cache that are lost, damaged, replaced or none of ours."""

import os
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pytest

from spacy_elmo.pipeline.cache import TABLES

from .test_cached_layers import alone


def lose(path, how):
    if how == "damaged":
        for each in path.parent.iterdir():
            each.write_bytes(b"no database" * 10_000)
    else:
        for each in [path] if how == "file" else list(path.parent.iterdir()):
            each.unlink()


@pytest.mark.parametrize("how", ["file", "all of it", "damaged"])
def test_training_goes_on_without_a_file_that_was_lost(tmp_path, how):
    """And that perhaps another process has made anew."""
    texts = [f"sentence number {n} of many" for n in range(12)]
    plain = alone()
    expected = [doc.tensor for doc in plain.pipe(texts)]
    first, second = alone(), alone()
    path = tmp_path / "cache" / "layers"
    first.get_pipe("elmo").use_layer_cache(path)
    found = [doc.tensor for doc in first.pipe(texts[:6])]
    lose(path, how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how != "damaged":
            second.get_pipe("elmo").use_layer_cache(path)
            again = [doc.tensor for doc in second.pipe(texts)]
            assert all(np.array_equal(a, b) for a, b in zip(again, expected))
        found += [doc.tensor for doc in first.pipe(texts[6:])]
        found += [doc.tensor for doc in first.pipe(texts)]
    assert all(np.array_equal(a, b) for a, b in zip(found, expected * 2, strict=False))
    said = [str(warning.message)[:7] for warning in caught]
    assert len(said) <= 2 and set(said) <= {"[ELW26]"}
    assert said or how != "damaged"


def test_file_that_can_not_be_used_is_an_error_at_once(tmp_path):
    elmo = alone().get_pipe("elmo")
    (tmp_path / "other").write_bytes(b"no database at all\n" * 1000)
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name, code in (
        ("other", "EL086"),
        ("other/layers", "EL087"),
        ("", "EL087"),
        ("link", "EL08"),
        ("pipe", "EL08"),
    ):
        with pytest.raises((ValueError, OSError), match=code):
            elmo.use_layer_cache(tmp_path / name)
    assert elmo.layer_cache is None


VIEW = (
    "CREATE VIEW {} AS WITH RECURSIVE c(x) AS "
    "(SELECT 1 UNION ALL SELECT 1 FROM c) SELECT x AS context FROM c"
)
TRIGGER = "CREATE TRIGGER t BEFORE INSERT ON contexts BEGIN SELECT zeroblob(9e8); END"
COMPUTED = (
    "CREATE TABLE contexts (context BLOB PRIMARY KEY, g AS (zeroblob(900000000)))"
)


@pytest.mark.parametrize(
    "made",
    [
        (TABLES[0], VIEW.format("contexts")),
        (TABLES[1], VIEW.format("layers")),
        (TABLES[0], COMPUTED),
        (*TABLES, TRIGGER),
    ],
    ids=["view of contexts", "view of layers", "computed column", "trigger"],
)
def test_what_computes_in_a_file_from_others_is_refused(tmp_path, made):
    with closing(sqlite3.connect(tmp_path / "layers")) as db:
        db.executescript(";".join(made))
    with pytest.raises(ValueError, match=r"EL086.*other tables"):
        alone().get_pipe("elmo").use_layer_cache(tmp_path / "layers")
