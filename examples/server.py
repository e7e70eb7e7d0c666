"""A server that reads text with ELMo: requests are gathered into batches.

    pip install fastapi uvicorn
    uvicorn --app-dir examples server:app --workers 2
    curl -d '{"text": "We sat on the bank."}' -H 'content-type: application/json' \
        http://127.0.0.1:8000/read

Each worker is a process with one pipeline and one thread that reads. The thread takes
all requests that wait, so that more load makes larger batches. PIPELINE in the
environment names a trained pipeline; without it, `elmo` alone gives vectors.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import spacy
import torch
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

LONGEST = 20_000  # characters of a text
AT_ONCE = 64  # texts of a batch
WAITING = 1_000  # requests that may wait; more are turned away

Answer = dict[str, Any]
Request = tuple[str, asyncio.Future[Answer]]


def load() -> spacy.Language:
    """Return the pipeline, after it has read a sentence."""
    torch.set_num_threads(1)  # workers share the processor's cores
    if path := os.environ.get("PIPELINE"):
        nlp = spacy.load(path)
    else:
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        nlp.add_pipe("elmo")
    nlp("The first sentence is the slowest.")
    return nlp


def read(nlp: spacy.Language, texts: list[str]) -> list[Answer]:
    """Return the answers to texts, which were read as one batch.

    Only one thread may be in here: a memory zone belongs to the whole pipeline.
    """
    with nlp.memory_zone():  # words of these texts are forgotten at its end
        return [answer(doc) for doc in nlp.pipe(texts)]


def answer(doc: spacy.tokens.Doc) -> Answer:
    """Return what a client is sent, with nothing in it that belongs to spaCy."""
    vector = doc.tensor.mean(axis=0) if len(doc) else doc.tensor.sum(axis=0)
    return {
        "tokens": [token.text for token in doc],
        "tags": [token.tag_ for token in doc],
        "entities": [[ent.start_char, ent.end_char, ent.label_] for ent in doc.ents],
        "vector": vector.tolist(),
    }


async def read_batches(queue: asyncio.Queue[Request]) -> None:
    """Answer the requests of a queue, those that wait together as one batch."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1) as thread:
        nlp = await loop.run_in_executor(thread, load)
        while True:
            requests = [await queue.get()]
            while len(requests) < AT_ONCE and not queue.empty():
                requests.append(queue.get_nowait())
            texts = [text for text, _ in requests]
            try:
                answers = await loop.run_in_executor(thread, read, nlp, texts)
            except Exception as error:  # noqa: BLE001  (these fail, the server goes on)
                for _, future in requests:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), found in zip(requests, answers):
                if not future.done():  # the client may have gone
                    future.set_result(found)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Read batches as long as the server runs."""
    app.state.queue = asyncio.Queue(maxsize=WAITING)
    reading = asyncio.create_task(read_batches(app.state.queue))
    yield
    reading.cancel()


app = FastAPI(lifespan=lifespan)


class Text(BaseModel):
    """The body of a request."""

    text: str = Field(max_length=LONGEST)


@app.post("/read")
async def answer_request(body: Text) -> Answer:
    """Return tokens, tags, entities and the average vector of a text."""
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    try:
        app.state.queue.put_nowait((body.text, future))
    except asyncio.QueueFull:
        raise HTTPException(503, "Too many requests wait. Try again later.") from None
    return await future
