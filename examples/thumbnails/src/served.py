"""Thumbnails served by functions-framework, as in Rosa 2022: a POST of JSON with the picture in `image`."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from thumbnails import thumbnail_of_request


async def served(request: Request) -> Response:
    """Answer with the thumbnail, computed in a thread to keep the event loop free."""
    try:
        thumbnail = await asyncio.to_thread(thumbnail_of_request, await request.json())
    except (KeyError, ValueError):
        return Response("expected a picture in base64 as `image`: JPEG, PNG, GIF or WebP\n", 415)
    return Response(thumbnail, media_type="image/jpeg")
