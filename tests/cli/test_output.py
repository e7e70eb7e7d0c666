"""Streams that are not UTF-8 show what they can, and end no command."""

import io
import json
import os
import subprocess
import sys

import pytest
import spacy
from spacy.training import Example
from typer.main import get_command

from spacy_elmo.cli import app
from spacy_elmo.output import clear_errors

from ..explore.views import tiny_bilm, tiny_softmax
from ..pipelines import TAGGER, add_elmo
from ..pretrain import runs

WORD = "배가"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model and a text, with names in Hangul."""
    path = tmp_path_factory.mktemp("말뭉치")
    bilm = tiny_bilm()
    bilm.save(path / "모델", softmax=tiny_softmax(bilm))
    lines = [
        "항구에 커다란 배가 들어왔다.",
        "배가 아파서 약을 먹었다 😀.",
        "배가 섬에 갔다.",
    ]
    (path / "글.txt").write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("error", "said"), [(MemoryError(), "MemoryError"), (ValueError("bad"), "bad")]
)
def test_an_error_is_one_message(error, said, capsys):
    with pytest.raises(SystemExit), clear_errors():
        raise error
    assert said in capsys.readouterr().out


def run(folder, encoding, *arguments):
    """Return the exit status and the bytes of standard output."""
    environment = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"}
    command = [sys.executable, "-m", "spacy", "elmo", *arguments]
    how = {"cwd": folder, "capture_output": True, "env": environment}
    done = subprocess.run(command, **how, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode(encoding, "replace")
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp949", "ascii", "cp1252", "utf-8"])
def test_results_are_shown(folder, encoding):
    shown = WORD.encode(encoding, "backslashreplace")
    asked = ["explore", "word", "모델", "글.txt", "--word", WORD, "--lang", "xx"]
    status, out = run(folder, encoding, *asked)
    assert status == 0 and out.count(b"[" + shown + b"]") == 12
    status, out = run(folder, encoding, *asked, "--json")
    assert status == 0
    rows = json.loads(out.decode(encoding))
    assert {word for row in rows for word in row["context"].split()} >= {f"[{WORD}]"}
    assert any("😀" in row["context"] + row["nearest"] for row in rows)
    status, out = run(folder, encoding, *asked, "-o", "-")
    assert status == 0 and WORD in out.decode("utf-8")  # as the page says of itself


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_messages_are_shown(folder, encoding):
    def escaped(text):
        return text.encode(encoding, "backslashreplace")

    out = f"준비-{encoding}"
    status, said = run(folder, encoding, "prepare", "글.txt", "-o", out, "--silent")
    assert status == 0 and escaped(out) in said
    assert WORD in (folder / out / "words.txt").read_text(encoding="utf-8").split()
    out = f"벡터-{encoding}"
    status, said = run(folder, encoding, "embed", "run", "모델", "글.txt", "-o", out)
    assert status == 0 and escaped(out) in said and escaped("모델") in said
    status, said = run(folder, encoding, "info", "없는모델")
    assert status == 1 and b"EL001" in said
    assert escaped("없는모델") in said.replace(b"\n", b"")


# -- every command ----------------------------------------------------------------


def commands(command=None, name=()):
    """Yield the name of every command, as words."""
    command = command or get_command(app)
    for key, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*name, key))
    if not hasattr(command, "commands"):
        yield name


@pytest.fixture(scope="module")
def everything(folder):
    """The folder with a pipeline, a text to train on and its configuration, too."""
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    nlp.add_pipe("tagger", config=TAGGER)
    tags = {"tags": ["가", "나"]}
    example = Example.from_dict(nlp.make_doc("배가 섬에"), tags)
    nlp.initialize(lambda: [example])
    nlp.to_disk(folder / "파이프라인")
    runs.write_text(folder)
    for name, new in (("train", "훈련"), ("dev", "시험")):
        text = (folder / f"{name}.txt").read_text().replace("cat", "고양이")
        (folder / f"{new}.txt").write_text(text, encoding="utf-8")
    text = runs.CONFIG.replace("train.txt", "훈련.txt").replace("dev.txt", "시험.txt")
    (folder / "설정.cfg").write_text(text.format(folder="."), encoding="utf-8")
    return folder


# The arguments of each command, and a name in Hangul that it is to say. A command finds
# what those before it have written.
TOLD = {
    "models": ("--json", None),
    "info": ("모델", None),
    "convert": ("모델 변환", "변환"),
    "prepare": ("글.txt -o 준비 --lang xx", "준비"),
    "pretrain": ("설정.cfg -o 결과 --training.max_steps 4", "결과"),
    "perplexity": ("모델 글.txt --lang xx", None),
    "curve": ("결과 -o 곡선.svg", "곡선.svg"),
    "benchmark": ("모델 글.txt --lang xx --rounds 1", None),
    "init-config": ("쓰기.cfg --weights 모델 --lang xx", "쓰기.cfg"),
    "explore word": ("모델 글.txt --word 배가 --lang xx -o 낱말.html", "낱말.html"),
    "explore sentence": ("모델 배가 --lang xx -o 문장.html", "문장.html"),
    "explore mix": ("파이프라인 -o 혼합.html", "혼합.html"),
    "embed plan": ("모델 글.txt -o 벡터 --lang xx", "모델"),
    "embed run": ("모델 글.txt -o 벡터 --lang xx", "벡터"),
    "embed status": ("벡터", None),
    "embed export": ("벡터 내보내기.hdf5 --format hdf5", "내보내기.hdf5"),
    "embed verify": ("벡터", None),
    "embed repair": ("벡터", "벡터"),
}


@pytest.mark.parametrize(
    "encoding",
    ["cp949", *(pytest.param(e, marks=pytest.mark.slow) for e in ("cp1252", "ascii"))],
)
def test_every_command(everything, encoding, tmp_path, monkeypatch):
    """Whether it succeeds or not, and its help."""
    assert {*TOLD} == {" ".join(name) for name in commands()}
    for path in everything.iterdir():
        if path.name in (
            "모델",
            "글.txt",
            "파이프라인",
            "훈련.txt",
            "시험.txt",
            "설정.cfg",
        ):
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)

    def said(*arguments):
        """Return the exit status, and all that a command says."""
        streams = {
            name: io.TextIOWrapper(io.BytesIO(), encoding, errors)
            for name, errors in (("stdout", "strict"), ("stderr", "backslashreplace"))
        }
        status = 0
        with monkeypatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            try:
                app(list(arguments), prog_name="spacy elmo")
            except SystemExit as ended:
                status = ended.code or 0
            for stream in streams.values():
                stream.flush()
        found = [
            stream.buffer.getvalue().decode(encoding) for stream in streams.values()
        ]
        return status, "".join("".join(found).split())

    def shown(text):
        return text.encode(encoding, "backslashreplace").decode(encoding)

    for name, (arguments, told) in TOLD.items():
        status, out = said(*name.split(), *arguments.split())
        assert status == 0, (name, out)
        assert told is None or shown(told) in out, (name, out)
        status, out = said(*name.split(), "--help")
        assert status == 0 and "--help" in out, (name, out)
        missing = arguments.split()
        missing[0] = "없는것"
        if name in ("init-config", "explore sentence"):
            missing[-1] = "없는것/아님"
        status, out = said(*name.split(), *missing)
        assert status != 0 and shown("없는것") in out, (name, out)
