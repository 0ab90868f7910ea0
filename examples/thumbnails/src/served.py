"""The thumbnails under functions-framework, as Rosa 2022 has them: a POST of JSON with the picture in `image`."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from thumbnails import thumbnail_of_request


async def served(request: Request) -> Response:
    """Answer with the thumbnail; threads do the work, so that requests are heard meanwhile."""
    try:
        thumbnail = await asyncio.to_thread(thumbnail_of_request, await request.json())
    except (KeyError, ValueError):
        return Response("expected a picture in base64 as `image`: JPEG, PNG, GIF or WebP\n", 415)
    return Response(thumbnail, media_type="image/jpeg")
