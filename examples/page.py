"""A page that shows the stream; a browser that comes back goes on where it was.

    python page.py nats://localhost:4222 "orders.>"      then open http://127.0.0.1:8000

Each message is a server-sent event, whose id is its place: journal, number, time. A browser whose
connection broke sends the id of the last event that it got, in the header Last-Event-ID.
"""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Header
from fastapi.responses import FileResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

import seriatim

NEW_PAGE_SHOWS = "10m"
PLACE = r"^\w+:\d{1,18}:\d{1,19}$"


def page_of(server: str, subject: str) -> FastAPI:
    """Return the application: the page, and its events."""

    @asynccontextmanager
    async def connected(app: FastAPI) -> AsyncIterator[None]:
        async with seriatim.connect(server, wait=True) as app.state.stream:
            yield

    app = FastAPI(lifespan=connected)

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(Path(__file__).with_name("page.html"))

    @app.get("/events", response_class=EventSourceResponse)
    async def events(
        last_event_id: Annotated[str | None, Header(pattern=PLACE)] = None,
    ) -> AsyncIterator[ServerSentEvent]:
        start = since = None
        if last_event_id is None:
            since = NEW_PAGE_SHOWS
        else:
            journal, number, time_ns = last_event_id.split(":")
            start = seriatim.Position(journal, int(number), int(time_ns))
        stream: seriatim.Client = app.state.stream
        async with stream.read(subject, start=start, since=since, losses="yield") as reader:
            async for item in reader:
                id = ":".join(map(str, reader.position))
                match item:
                    case seriatim.Message():
                        data = {"number": item.number, "subject": item.subject}
                        data["text"] = item.payload.decode(errors="replace")
                        yield ServerSentEvent(data=data, id=id)
                    case seriatim.Lost():
                        yield ServerSentEvent(raw_data=str(item), event="lost", id=id)
                    case seriatim.JournalChanged():  # the page forgets what it shows
                        yield ServerSentEvent(raw_data=str(item), event="changed")

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="Show the stream on a page.")
    parser.add_argument("server", help="nats://host:port")
    parser.add_argument("subject", help="such as orders.>")
    parser.add_argument("--port", type=int, default=8000, help="of the page, on 127.0.0.1")
    arguments = parser.parse_args()
    uvicorn.run(page_of(arguments.server, arguments.subject), port=arguments.port)


if __name__ == "__main__":
    main()
