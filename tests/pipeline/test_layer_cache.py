"""What the layer cache keeps: whole, bounded, by many processes and threads."""

import multiprocessing
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.pipeline.cache import FileCache, MemoryCache, key_of

from ..models import any_sentence

MB = 1 << 20
rng = np.random.default_rng(0)


def arrays(n, tokens=5):
    keys = [key_of("x", [str(i)]) for i in range(n)]
    return {k: rng.normal(size=(3, tokens, 8)).astype("float32") for k in keys}


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "new" / "layers.sqlite"


def open_cache(path, max_bytes):
    return FileCache(path, max_bytes) if path else MemoryCache(max_bytes)


def test_gives_back_what_it_was_given(path):
    cache, stored = open_cache(path, 64 * MB), arrays(1200)
    assert cache.read(list(stored)) == {}
    cache.write(stored)
    cache.write({key: array + 1 for key, array in stored.items()})  # first come, stays
    for other in (cache, open_cache(path, 64 * MB)) if path else (cache,):
        found = other.read([*stored, b"unknown", *stored])
        assert found.keys() == stored.keys()
        for key, array in stored.items():
            assert np.array_equal(found[key], array) and found[key].dtype == np.float32
    empty = {b"empty": np.zeros((3, 0, 8), dtype="float32")}
    cache.write(empty)
    assert cache.read([b"empty"])[b"empty"].shape == (3, 0, 8)


@given(any_sentence, any_sentence, st.text(max_size=3))
@settings(deadline=None)
def test_keys_tell_sentences_apart(a, b, context):
    same = key_of(context, a) == key_of(context, b)
    assert same == (a == b)
    assert key_of(context + "x", a) != key_of(context, a)


def test_is_bounded_and_says_when_it_is_full(path):
    cache = open_cache(path, 4 * MB)

    def write():
        for number in range(20):
            key = key_of("x", [str(number)])
            cache.write({key: np.ones((3, 100, 1024), dtype="float32")})

    with pytest.warns(UserWarning, match=r"ELW07.*layer_cache_mb = 4") as warned:
        write()
    assert len(warned) == 1
    found = cache.read([key_of("x", [str(n)]) for n in range(20)])
    assert 1 <= len(found) <= 3
    if path is not None:
        cache.close()
        assert size_of(path) < 5 * MB


def size_of(path):
    return sum(p.stat().st_size for p in path.parent.iterdir())


def test_what_is_being_written_is_bounded_too(tmp_path):
    path = tmp_path / "cache" / "layers"
    cache = FileCache(path, 40 * MB)

    def write():
        for number in range(40):
            keys = [key_of("x", [str(number), str(n)]) for n in range(12)]
            ones = np.ones((3, 100, 1024), dtype="float32")
            cache.write(dict.fromkeys(keys, ones))
            yield size_of(path)

    with pytest.warns(UserWarning, match=r"ELW07.*layer_cache_mb = 40"):
        largest = max(write())
    assert 35 * MB < largest < 65 * MB
    cache.close()
    assert size_of(path) < 41 * MB


def test_what_fits_of_a_batch_is_kept(path):
    """One that is larger than the whole cache, too."""
    cache, stored = open_cache(path, 4 * MB), arrays(12, tokens=10_000)
    with pytest.warns(UserWarning, match="ELW07"):
        cache.write(stored)
    found = cache.read(list(stored))
    assert 2 <= len(found) < 12
    assert all(np.array_equal(found[key], stored[key]) for key in found)


@pytest.mark.skipif(sys.platform == "win32", reason="no quotas of a process")
@pytest.mark.slow
def test_used_up_quota_is_a_warning_too(tmp_path):
    code = f"""
import resource, signal, warnings
import numpy as np
from pathlib import Path
from spacy_elmo.pipeline.cache import FileCache
from spacy_elmo.pipeline.cache import MemoryCache, key_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cache = FileCache(Path({str(tmp_path)!r}) / "layers", 64 << 20)
cache.write({{b"small": np.ones((3, 5, 8), dtype="float32")}})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cache.write({{b"large": np.ones((3, 500, 1024), dtype="float32")}})
assert "ELW07" in str(caught[0].message), caught
assert list(cache.read([b"small", b"large"])) == [b"small"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_values_of_other_rows_are_not_taken(tmp_path):
    """As if the index of a damaged file pointed to them."""
    path = tmp_path / "layers"
    stored = arrays(2)
    a, b = stored
    for column in ("key", "n_layers", "data"):
        path.unlink(missing_ok=True)
        cache = FileCache(path, 64 * MB)
        cache.write(stored)
        cache.close()
        with sqlite3.connect(path) as db:
            if column == "data":
                (data,) = db.execute("SELECT data FROM layers WHERE key = ?", (b,))
                db.execute("UPDATE layers SET data = ? WHERE key = ?", (*data, a))
            elif column == "key":
                db.execute("DELETE FROM layers WHERE key = ?", (a,))
                db.execute("UPDATE layers SET key = ? WHERE key = ?", (a, b))
            else:
                db.execute("UPDATE layers SET n_layers = 1 WHERE key = ?", (a,))
        db.close()
        with pytest.raises(ValueError, match=r"EL086.*checksum"):
            FileCache(path, 64 * MB).read([a])


@pytest.mark.parametrize("spoil", ["header", "cut", "other", "value"])
def test_damaged_file(tmp_path, spoil):
    path = tmp_path / "layers"
    cache, stored = FileCache(path, 64 * MB), arrays(300, tokens=200)
    cache.write(stored)
    cache.close()
    content = bytearray(path.read_bytes())
    if spoil == "header":
        content[:100] = b"x" * 100
    elif spoil == "cut":
        del content[len(content) // 3 :]
    elif spoil == "other":
        content = bytearray(b"no database at all\n" * 1000)
    else:
        array = next(iter(stored.values()))
        content[content.index(array.tobytes()[:64])] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"EL086.*remove a damaged cache"):
        FileCache(path, 64 * MB).read(list(stored))


@pytest.mark.parametrize("content", ["database", "text"])
def test_a_file_of_something_else_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "corpus"
    path.write_text("no database at all\n" * 100)
    if content == "database":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE examples (text)")
        db.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"EL086.*Choose another path"):
        FileCache(path, MB).open()
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["corpus"]


def test_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    """A cache is closed before a fork, and opens again."""
    monkeypatch.chdir(tmp_path)
    cache, stored = FileCache(Path("layers"), 64 * MB), arrays(1)
    cache.write(stored)
    cache.close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cache.read(list(stored)).keys() == stored.keys()
    cache.close()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_memory_holds_no_more_than_is_counted():
    """What is written at once are parts of one array."""
    cache, whole = MemoryCache(MB), np.ones((3, 4000, 64), dtype="float32")
    parts = {key_of("x", [str(n)]): whole[:, n : n + 10] for n in range(0, 4000, 10)}
    with pytest.warns(UserWarning, match="ELW07"):
        cache.write(parts)
    kept = cache.read(list(parts)).values()
    assert len(kept) > 100 and not any(each.base is whole for each in kept)
    small = dict(list(parts.items())[:5])
    room = MemoryCache(64 * MB)
    room.write(small)  # all of a batch, which is not copied
    assert all(each.base is whole for each in room.read(list(small)).values())


def test_place_that_can_not_be_used(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match="EL087"):
        FileCache(tmp_path / "file" / "layers", MB).read([b"key"])
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="EL087"):
        FileCache(tmp_path / "folder", MB).read([b"x"])


def write_and_read(path, first, last):
    cache = FileCache(path, 256 * MB)
    for number in range(first, last):
        key = key_of("x", [str(number)])
        cache.write({key: np.full((3, 40, 64), number, dtype="float32")})
        found = cache.read([key_of("x", [str(n)]) for n in range(last)])
        for n in range(last):
            array = found.get(key_of("x", [str(n)]))
            assert array is None or (array == n).all()


@pytest.mark.parametrize(
    "method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)
def test_several_processes_at_once(tmp_path, method):
    path = tmp_path / "layers"
    context = multiprocessing.get_context(method)
    ranges = [(0, 40), (20, 60), (0, 60)]
    processes = [
        context.Process(target=write_and_read, args=(path, *r)) for r in ranges
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    keys = [key_of("x", [str(n)]) for n in range(60)]
    assert len(FileCache(path, 256 * MB).read(keys)) == 60


def test_other_weights_in_it_are_told_of_once(tmp_path, recwarn):
    first, second = (FileCache(tmp_path / "layers", 64 * MB) for _ in range(2))
    first.use("these weights")
    second.use("these weights")
    assert not recwarn
    for _ in range(2):
        second.use("others")
    FileCache(tmp_path / "layers", 64 * MB).use("others")  # known by now
    (warning,) = recwarn
    assert "ELW08" in str(warning.message) and "layers'" in str(warning.message)


def test_new_file_that_many_open_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    for number in range(6):
        path = tmp_path / f"layers{number}"
        processes = [
            context.Process(target=write_and_read, args=(path, 0, 2)) for _ in range(6)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0


@pytest.mark.parametrize("value", ["NULL", "'text'", "1e300"])
@pytest.mark.parametrize("column", ["data", "checksum", "n_layers", "width"])
def test_values_of_other_types(tmp_path, column, value):
    path, stored = tmp_path / "layers", arrays(2)
    cache = FileCache(path, 64 * MB)
    cache.write(stored)
    cache.close()
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE layers SET {column} = {value}")
    db.close()
    with pytest.raises(ValueError, match="EL086"):
        FileCache(path, 64 * MB).read(list(stored))


def test_another_thread_begins_another_context():
    class Key(bytes):
        """One whose look-up is interrupted."""

        def __hash__(self):
            cache.use(b"of other weights")
            return super().__hash__()

    cache = MemoryCache(1 << 20)
    cache.use(b"of some weights")
    cache.write({b"key": np.ones((1, 2, 3), dtype="float32")})
    assert list(cache.read([Key(b"key")])) == [b"key"]
