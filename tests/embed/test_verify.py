"""Every kind of damage is found, and mended."""

import errno
import gzip
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from spacy_elmo import embed
from spacy_elmo.bilm.kernels import native
from spacy_elmo.embed import repair, run, verify
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.embed.shard import (
    HEADER_BYTES,
    Shard,
    ShardWriter,
    pack_header,
    read_shard,
)

from .corpora import SMALL, embed_files, make_plan, save_model, shards, write_lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of vectors of a plain file and of a packed one."""
    folder = tmp_path_factory.mktemp("verify")
    text = write_lines(folder / "a.txt", 80)
    packed = folder / "b.txt.gz"
    packed.write_bytes(gzip.compress((folder / "a.txt").read_bytes()))
    return embed_files(folder, [text, str(packed)])


@pytest.fixture
def output(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "vectors")


def problems(output, **options):
    found = verify(output, **options).problems
    return {problem.shard: problem.problem for problem in found}


def names(output):
    return sorted(shards(output))


def test_a_whole_folder(output):
    report = verify(output, full=True)
    corpus = embed.open(output)
    assert report.problems == [] and report.shards == len(names(output)) > 4
    assert report.counts["documents"] == len(corpus) == 160
    assert report.counts["tokens"] == corpus.n_tokens == report.recomputed
    some = verify(output, sample=0.2)
    assert some.problems == [] and 0 < some.recomputed < 0.5 * corpus.n_tokens


def damage_byte(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def edit(path, change):
    """Write a shard anew, with checksums that fit, and something changed."""
    shard = read_shard(path)
    rows = np.array(shard.read_rows(0, shard.header["counts"]["rows"]))
    header, arrays = (
        dict(shard.header),
        {n: np.array(a) for n, a in shard.arrays.items()},
    )
    rows = change(header, arrays, rows)
    path.unlink()
    with ShardWriter(path, rows.dtype, rows.shape[1:]) as writer:
        writer.add(rows)
        writer.finish(header, arrays)


def other_vector(header, arrays, rows):
    rows[3] += 1e-6
    return rows


def first_vector(header, arrays, rows):
    rows[0] += 1e-6
    return rows


def other_token(header, arrays, rows):
    arrays["token_text"][0] += 1
    return rows


def a_row_less(header, arrays, rows):
    return rows[:-1]


def other_plan(header, arrays, rows):
    header["plan"] = "0" * 32
    return rows


def other_input(header, arrays, rows):
    header["input"] = "0" * 32
    return rows


def other_place(header, arrays, rows):
    header["continues"] = True
    return rows


EDITS = [other_vector, other_token, a_row_less, other_plan, other_input, other_place]


@pytest.mark.parametrize("change", EDITS, ids=lambda change: change.__name__)
def test_shards_that_are_whole_and_wrong(whole, output, change):
    name = names(output)[1]
    edit(output / "shards" / name, change)
    report = verify(output, full=True)
    assert [problem.shard for problem in report.problems] == [name]
    assert repair(output, report) == 1
    run(output)
    assert shards(output) == shards(whole)


def no_token_text(header, arrays, rows):
    del arrays["token_text"]
    return rows


def too_few_documents(header, arrays, rows):
    arrays["document_offsets"] = arrays["document_offsets"][:1]
    return rows


def no_counts(header, arrays, rows):
    del header["counts"]
    return rows


def odd_pool(header, arrays, rows):
    header["pool"] = "all"
    return rows


def no_end(header, arrays, rows):
    del header["last"]
    return rows


def no_rounding(header, arrays, rows):
    header["error"] = {}
    return rows


NO_SHARDS = [no_token_text, too_few_documents, no_counts, odd_pool, no_end, no_rounding]


@pytest.mark.parametrize(
    "change", [*NO_SHARDS, other_plan], ids=lambda change: change.__name__
)
def test_no_shard_of_the_plan_is_read(output, tmp_path, change):
    """Though its checksums are right: of a packed input, whose last shard says so."""
    *_, name = names(output)
    edit(output / "shards" / name, change)
    readers = [
        lambda: [document.tokens for document in embed.open(output)],
        lambda: embed.rounding_error(read_plan(output), output),
        lambda: embed.export(output, tmp_path / "exported", "hdf5"),
        lambda: run(output),
    ]
    for read in readers:
        with pytest.raises(ValueError, match=rf"EL208.*{name}"):
            read()
    assert set(problems(output)) == {name}


def no_scales(header, arrays, rows):
    del arrays["scales"]
    return rows


def too_few_scales(header, arrays, rows):
    arrays["scales"] = arrays["scales"][:1]
    return rows


@pytest.mark.parametrize(
    "change", [no_scales, too_few_scales], ids=lambda change: change.__name__
)
def test_scales_that_do_not_fit_are_not_read(tmp_path, change):
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt", 8)], dtype="int8")
    name, *_ = names(output)
    edit(output / "shards" / name, change)
    with pytest.raises(ValueError, match=rf"EL208.*{name}"):
        [document.vectors for document in embed.open(output)]
    assert set(problems(output)) == {name}


def test_an_array_without_a_checksum_is_not_exported(output, tmp_path):
    *_, name = names(output)
    path = output / "shards" / name
    header, data = read_shard(path).header, path.read_bytes()
    del header["arrays"]["token_text"]["checksum"]
    path.unlink()
    path.write_bytes(pack_header(header) + data[HEADER_BYTES:])
    with pytest.raises(ValueError, match=rf"EL208.*{name}"):
        embed.export(output, tmp_path / "exported", "hdf5")


def test_damaged_files(whole, output):
    """Bytes that were changed, everywhere in a file; files cut short and empty."""
    first, second, *_ = names(output)
    path = output / "shards" / first
    good, size = path.read_bytes(), path.stat().st_size
    for at in [0, 8, 9, 100, 900, HEADER_BYTES - 1, HEADER_BYTES, size // 2, size - 1]:
        damage_byte(path, at)
        assert set(problems(output, sample=0)) == {first}, at
        path.write_bytes(good)
    for data in (good[:-1], good + b"\0", good[:100], b"", b"[" * (1 << 20)):
        path.write_bytes(data)
        assert "EL208" in problems(output)[first]
    (output / "shards" / second).write_bytes(good)  # another's shard
    report = verify(output)
    assert [problem.shard for problem in report.problems] == [first, second]
    repair(output, report)
    run(output)
    assert shards(output) == shards(whole)


@pytest.mark.parametrize("packed", [False, True])
def test_missing_and_strange_files(whole, output, packed):
    found = [name for name in names(output) if ("-" in name) == packed]
    missing = [found[0], found[2]]
    for name in missing:
        (output / "shards" / name).unlink()
    shutil.copy(output / "shards" / found[1], output / "shards/00000099.safetensors")
    (output / "shards" / "notes.txt").touch()
    report = verify(output)
    assert {problem.shard: problem.problem for problem in report.problems} == {
        **dict.fromkeys(missing, "is missing"),
        "00000099.safetensors": "is not of this plan",
    }
    repair(output, report)
    run(output)
    assert names(output) == [*names(whole), "notes.txt"]
    (output / "shards" / "notes.txt").unlink()
    assert shards(output) == shards(whole)


def test_strange_files_with_the_number_of_a_packed_input(output):
    """Its shards are looked for as long as there are later ones."""
    *_, last = packed = [name for name in names(output) if "-" in name]
    number = last.split("-")[0]
    strange = [f"{number}-900000.notes", f"{number}.safetensors"]
    (output / "shards" / strange[0]).touch()
    (output / "shards" / last).rename(output / "shards" / strange[1])
    assert len(packed) > 2
    others = dict.fromkeys(strange, "is not of this plan")
    assert problems(output) == {last: "is missing", **others}


def test_inputs_that_are_gone_before_they_were_read(tmp_path):
    """What is there is verified all the same, and the rest is missing."""
    texts = [write_lines(tmp_path / name) for name in ("a.txt", "b.txt")]
    output = embed_files(tmp_path, texts)
    made = names(output)
    of_b = made[len(made) // 2 :]  # the files are equal
    for name in of_b:
        (output / "shards" / name).unlink()
    assert set(problems(output).values()) == {"is missing"}
    (tmp_path / "b.txt").unlink()
    assert problems(output) == dict.fromkeys(of_b, "is missing")


def test_a_shard_is_not_to_blame_for_a_lack_of_memory(output, monkeypatch):
    def check(self, path):
        raise MemoryError("no memory")

    monkeypatch.setattr(Shard, "check_arrays", check)
    with pytest.raises(MemoryError, match="no memory"):
        verify(output)


def test_a_shard_is_not_to_blame_for_permissions(output, monkeypatch):
    """Or `repair` would remove a whole one."""

    def memmap(path, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(np, "memmap", memmap)
    for read in (verify, embed.open):
        with pytest.raises(OSError, match=r"EL030.*shards.*Permission denied"):
            read(output)


def test_what_can_not_be_removed(output):
    (output / "shards" / "00000099.safetensors").mkdir()
    report = verify(output)
    with pytest.raises(OSError, match=r"EL013.*00000099"):
        repair(output, report)


@pytest.mark.parametrize("packed", [False, True])
def test_a_shard_is_not_to_blame_for_its_input(tmp_path, packed):
    """Or `repair` would remove what can't be made again."""
    text = tmp_path / ("a.txt.gz" if packed else "a.txt")
    write_lines(tmp_path / "a.txt")
    if packed:
        text.write_bytes(gzip.compress((tmp_path / "a.txt").read_bytes()))
    output = embed_files(tmp_path, [str(text)])
    good, times = text.read_bytes(), text.stat()
    text.rename(tmp_path / "away")
    with pytest.raises(OSError, match=r"EL030"):
        verify(output)
    (tmp_path / "away").rename(text)
    later = (times.st_atime_ns, times.st_mtime_ns + 10**9)
    os.utime(text, ns=later)
    assert verify(output).problems == []  # a copy
    text.write_bytes(good[:-1] + b"?")
    os.utime(text, ns=(times.st_atime_ns, times.st_mtime_ns + 2 * 10**9))
    with pytest.raises(ValueError, match=r"EL204"):
        verify(output)
    # Damage that is found while the input is read: half of it, or no UTF-8.
    half = len(good) // 2
    text.write_bytes(bytes(half) + good[half:] if packed else b"\xff" + good[1:])
    os.utime(text, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises((OSError, ValueError), match=r"EL030|EL031"):
        verify(output)
    text.write_bytes(good)
    os.utime(text, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert verify(output).problems == []


def test_the_shard_after_a_wrong_one_is_right(output):
    """Though its input follows on from what was not read to its end."""
    packed = [name for name in names(output) if "-" in name]
    edit(output / "shards" / packed[0], other_vector)
    assert set(problems(output, full=True)) == {packed[0]}


def test_some_vectors_are_always_recomputed(output):
    assert verify(output, sample=0.0).recomputed > 100
    edit(output / "shards" / names(output)[0], first_vector)
    assert set(problems(output, sample=0.0)) == {names(output)[0]}
    for sample in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"EL207.*sample"):
            verify(output, sample=sample)


def test_an_input_that_changes(tmp_path):
    text = tmp_path / "a.txt"
    write_lines(text)
    output = embed_files(tmp_path, [str(text)])
    before = text.stat()
    text.write_text(text.read_text().replace("Line 3 ", "Line 4 "))
    (output / "shards" / names(output)[0]).unlink()
    with pytest.raises(ValueError, match="EL204"):
        run(output)
    # A change that keeps size and time is found by the checksum.
    os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
    run(output)
    text.write_text(text.read_text().replace("Line 4 ", "Line 3 "))
    os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
    (problem,) = verify(output).problems
    assert problem.shard == names(output)[0] and "checksum of the input" in (
        problem.problem
    )
    text.write_text("gone")
    with pytest.raises(ValueError, match="EL204"):
        verify(output)


def test_another_processor(output, monkeypatch):
    """Its vectors may differ by rounding, and by no more."""
    path = output / "shards" / names(output)[0]

    def rounded(header, arrays, rows):
        header["processor"] = "another"
        return rows * np.float32(1 + 1e-6)

    edit(path, rounded)
    assert problems(output, full=True) == {}

    def wrong(header, arrays, rows):
        return rows * np.float32(1 + 1e-4)

    edit(path, wrong)
    assert set(problems(output, full=True)) == {path.name}


def test_another_engine(tmp_path, monkeypatch):
    """Without the C library as with it: an installation may have it later, or lose it.
    Half precision is refused there."""
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt")])
    monkeypatch.setattr(native, "best", lambda: None)
    assert problems(output, full=True) == {}


def test_rows_that_depend_on_their_shard_are_computed_by_shard(tmp_path):
    """Those of a GPU: here a plan says of a CPU that it is like one."""
    save_model(tmp_path / "model")
    text = write_lines(tmp_path / "a.txt", 60)
    output, options = tmp_path / "vectors", {"shard_mb": SMALL / 4}
    plan, _ = make_plan(str(tmp_path / "model"), [text], output, **options)
    (output / "plan.json").unlink()
    replace(plan, computing=replace(plan.computing, exact=False)).save(output)
    run(output)
    assert not read_plan(output).computing.exact
    report = verify(output, sample=0.3, seed=1)
    counts = [read_shard(p).header["counts"]["rows"]
              for p in (output / "shards").iterdir()]  # fmt: skip
    assert report.problems == [] and 0 < report.recomputed < sum(counts)
    sums = {0}
    for count in counts:
        sums |= {total + count for total in sums}
    assert report.recomputed in sums
    edit(output / "shards" / names(output)[0], other_vector)
    assert set(problems(output, full=True)) == {names(output)[0]}


def test_a_shard_as_float32():
    rows = np.array([[100, -50]], dtype=np.int8)
    scales = np.array([0.5], dtype=np.float32)
    shard = Shard({}, {"scales": scales}, lambda start, stop: rows[start:stop])
    assert shard.vectors(0, 1).tolist() == [[50.0, -25.0]]
