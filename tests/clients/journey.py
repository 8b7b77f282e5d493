"""One journey of a Python client: connect, list, call until refused, list again, wait as told, go on.

Usage: journey.py mcp1|mcp2|mcp2-legacy|fastmcp URL KEY

Prints one JSON object: how many calls were served, what the client could read of the refusal, and whether the session
went on afterwards.
"""

import asyncio
import json
import re
import sys
from contextlib import asynccontextmanager

KIND, URL, KEY = sys.argv[1:4]
HEADERS = {"Authorization": f"Bearer {KEY}"}
CALL = {"dataset": "sales"}


@asynccontextmanager
async def connect():
    """Yields functions to list the tools and to call `export`."""
    if KIND == "mcp1":
        import httpx
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with httpx.AsyncClient(headers=HEADERS) as http:
            async with streamable_http_client(URL, http_client=http) as (read, write, _):
                async with ClientSession(read, write) as session:
                    await session.initialize()
                    yield session.list_tools, lambda: session.call_tool("export", CALL)
    elif KIND.startswith("mcp2"):
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        mode = "legacy" if KIND.endswith("legacy") else "auto"
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            async with Client(streamable_http_client(URL, http_client=http), mode=mode) as client:
                yield client.list_tools, lambda: client.call_tool("export", CALL)
    else:
        from fastmcp import Client
        from fastmcp.client.transports import StreamableHttpTransport

        async with Client(StreamableHttpTransport(URL, headers=HEADERS)) as client:
            yield client.list_tools, lambda: client.call_tool("export", CALL)


def read(error):
    """What can be read of an error: its text, and the code and data if the client keeps them."""
    detail = getattr(error, "error", error)
    data = getattr(detail, "data", None)
    return {
        "type": type(error).__name__,
        "text": str(error),
        "code": getattr(detail, "code", None),
        "data": data if isinstance(data, dict) else None,
    }


async def journey():
    async with connect() as (list_tools, export):
        await list_tools()
        served, refusal = 0, None
        while refusal is None and served < 20:
            try:
                await export()
                served += 1
            except Exception as error:  # every client has its own sort
                refusal = read(error)
        await list_tools()
        wait = re.search(r"Retry in (\d+) s", refusal["text"] if refusal else "")
        await asyncio.sleep(int(wait.group(1)) if wait else 0)
        await export()
        print(json.dumps({"served": served, "refusal": refusal, "again": True}))


asyncio.run(journey())
