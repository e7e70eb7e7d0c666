"""The server of the examples answers as a pipeline does, however many ask."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = ["We sat on the bank. It rained.", "", "The bank lent us money."] * 8


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("fastapi", reason="needs fastapi, of the extra 'dev'")
    pytest.importorskip("httpx", reason="needs httpx, of the extra 'dev'")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delenv("PIPELINE", raising=False)
    import server

    yield server
    del sys.modules["server"]


def ask(client, text):
    return client.post("/read", json={"text": text})


def test_answers_of_requests_at_once_are_those_of_the_pipeline(server, monkeypatch):
    from fastapi.testclient import TestClient

    read, batches = server.read, []
    monkeypatch.setattr(
        server, "read", lambda nlp, texts: batches.append(texts) or read(nlp, texts)
    )
    with TestClient(server.app) as client, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: ask(client, text).json(), TEXTS))
    assert sum(map(len, batches)) == len(TEXTS)
    nlp = server.load()
    for text, answer in zip(TEXTS, found, strict=True):
        doc = nlp(text)
        assert answer["tokens"] == [token.text for token in doc]
        mean = doc.tensor.mean(axis=0) if text else np.zeros(512)
        assert np.array_equal(np.array(answer["vector"], dtype="float32"), mean)


def test_a_request_that_fails_does_not_end_the_server(server, monkeypatch):
    from fastapi.testclient import TestClient

    read = server.read

    def fail_once(nlp, texts):
        monkeypatch.setattr(server, "read", read)
        raise RuntimeError

    with TestClient(server.app, raise_server_exceptions=False) as client:
        monkeypatch.setattr(server, "read", fail_once)
        assert ask(client, "Lost.").status_code == 500
        assert ask(client, "Found.").json()["tokens"] == ["Found", "."]
        assert ask(client, "x" * (server.LONGEST + 1)).status_code == 422


def test_requests_are_turned_away_when_too_many_wait(server, monkeypatch):
    from fastapi.testclient import TestClient

    monkeypatch.setattr(server, "WAITING", 1)
    with TestClient(server.app) as client, ThreadPoolExecutor(16) as threads:
        codes = {r.status_code for r in threads.map(lambda t: ask(client, t), TEXTS)}
    assert codes == {200, 503}
