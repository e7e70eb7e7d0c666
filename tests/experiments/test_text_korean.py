"""Parsers of Korean sources, each on a few lines of what it reads."""

import json
import sqlite3

from experiments.text.parsers import (
    korean_decisions,
    korean_documentation,
    korean_reviews,
    korean_speeches,
    korean_statutes,
    korean_texts,
    korean_wikipedia,
)
from experiments.text.source import Blob

SENTENCE = "이 문장은 낱말이 모두 열 개가 되도록 길게 쓴 것이다."  # ten words


def parse(parser, text: str, path: str = "a.md") -> list[list[str]]:
    data = text if isinstance(text, bytes) else text.encode()
    return [d.paragraphs for d in parser.parse([Blob("someone/name", path, data)])]


def test_wikipedia():
    long = " ".join([SENTENCE] * 5)
    text = f"""<doc id="1" url="u" title="루이">
루이

루이(, 1754년 ~ 1793년)는 프랑스의 마지막 왕이다. 면적은 km2이다. 처형되었다고 한다.
개요.
가환환 formula_1 위의 formula_2 정사각 행렬을 생각하자고 한다.
[[필립|필립 공]]은 <높은 성의 사나이>를 참 좋아하였다.그는 자주 읽었다.
{long}
</doc>
<doc id="2" url="u" title="작은 별">
작은 별

{SENTENCE}
</doc>
"""
    (found,) = parse(korean_wikipedia, text)
    assert found == [
        "루이(1754년 ~ 1793년)는 프랑스의 마지막 왕이다. 처형되었다고 한다.",
        "필립 공은 〈높은 성의 사나이〉를 참 좋아하였다. 그는 자주 읽었다.",
        long,
    ]


def test_decisions():
    reasons = "\n".join(f"가. 원고 {n}의 말이다. {SENTENCE}" for n in range(15))
    text = f"""---
사건번호: 2008구합1
---
【주 문】 원고의 청구를 기각하기로 하고 판결하는 것이다.
【이    유】1. 피고인은
          공소외 1 회사의 대표이사로서 건물을 지어 온 사람이다.
이 줄은 쪽이 바뀌어 끊겼는데 다음 줄로 이어지는 제대군인에 대
하여 가산점을 주었다는 것이 청구인의 주장이다.
위 법리에 따르면 그렇게 볼 수 있다(대법원 2006. 2. 7. 선고 2005다1 판결 참조).
{reasons}
【관련 법령】 별지 기재와 같다고 하는 것이 옳다고 본다.
"""
    (found,) = parse(korean_decisions, text)
    assert found[0] == "피고인은 공소외 1 회사의 대표이사로서 건물을 지어 온 사람이다."
    assert found[1] == "위 법리에 따르면 그렇게 볼 수 있다."
    assert found[2:] == [f"원고 {n}의 말이다. {SENTENCE}" for n in range(15)]
    assert parse(korean_decisions, f"【이유】{SENTENCE}") == []


def test_documentation():
    text = f"""---
title: 파일 열기
---
# 파일 열기

이 문서는 파일을 여는 방법을 설명하는 글입니다.

[파일](open.md)을 열고 `Save`를 누른 다음 잠시 기다립니다.

```powershell
Get-Item 이 줄은 코드라서 읽지 않는 줄입니다.
```

- {SENTENCE}
- {SENTENCE}
"""
    (found,) = parse(korean_documentation, text)
    assert found == [
        "파일을 열고 Save를 누른 다음 잠시 기다립니다.",
        SENTENCE,
        SENTENCE,
    ]
    assert parse(korean_documentation, f"# 짧은 글\n\n{SENTENCE}\n") == []


def test_statutes():
    body = "\n\n".join(f"**②** 제{n}항은 그대로 둔다. {SENTENCE}" for n in range(10))
    text = f"# 민법\n\n##### 제1조 (법원)\n\n{body} <개정 2020. 1. 1.>\n"
    (found,) = parse(korean_statutes, text)
    assert found == [f"제{n}항은 그대로 둔다. {SENTENCE}" for n in range(10)]


def test_speeches(tmp_path):
    path = tmp_path / "s.db"
    database = sqlite3.connect(path)
    database.execute("create table base (division_number, date, speech_text)")
    text = ".".join(["그동안 여러분과 함께 모든 일을 잘해 왔습니다"] * 10) + "."
    rows = [("1", "1957.01.01", text), ("2", "1999.01.01", text), ("3", None, text)]
    database.executemany("insert into base values (?, ?, ?)", rows)
    database.commit()
    database.close()
    (found,) = parse(korean_speeches, path.read_bytes(), "s.db")
    assert found == ["그동안 여러분과 함께 모든 일을 잘해 왔습니다."] * 10


def test_reviews():
    good = "간만에 아주 좋았던 영화라서 친구들에게도 추천해요"
    reviews = [good] * 5 + ["너무 재밌닼ㅋㅋㅋㅋㅋㅋ 진짜 또 보고 싶은 영화", "짧다"]
    text = json.dumps([{"review": review} for review in reviews])
    assert parse(korean_reviews, text, "raw/1.json") == [[good] * 5]


def test_small_texts():
    text = f"제목\n* {SENTENCE}\n{SENTENCE}\n\n다른 제목\n짧은 글이다.\n"
    assert parse(korean_texts, text, "a.txt") == [[SENTENCE, SENTENCE]]
    table = "Q,A,label\n3박4일 놀러가고 싶다,여행은 언제나 좋죠.,0\n"
    assert parse(korean_texts, table, "a.csv") == [
        ["3박4일 놀러가고 싶다", "여행은 언제나 좋죠."]
    ]
