"""The thumbnail service: its test pictures, what it makes of them, and whom its server refuses."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest
from PIL import Image

import thumbnails
from examples.thumbnails.pictures import SIZES_PX, numbered, picture
from examples.thumbnails.server import Admission

SMALL_BYTES = min(SIZES_PX)


def size_px(jpeg: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(jpeg)) as image:
        image.load()
        return image.size


@pytest.mark.slow
@pytest.mark.parametrize("size_bytes", SIZES_PX)
def test_a_picture_has_exactly_the_size_that_was_measured_and_can_be_read(size_bytes: int) -> None:
    jpeg = picture(size_bytes)

    assert len(jpeg) == size_bytes
    assert size_px(jpeg) == SIZES_PX[size_bytes]


def test_a_picture_is_the_same_each_time_and_another_one_under_another_number() -> None:
    jpeg = picture(SMALL_BYTES)

    assert picture(SMALL_BYTES) == jpeg
    assert numbered(jpeg, 1) != numbered(jpeg, 2)
    assert thumbnails.shrink(numbered(jpeg, 1)) == thumbnails.shrink(numbered(jpeg, 2))


def test_a_size_that_was_not_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no picture has 100 bytes; there are 18617, 228902, 406938"):
        picture(100)


def test_a_thumbnail_keeps_the_proportions_and_none_of_the_comments() -> None:
    thumbnail = thumbnails.shrink(picture(SMALL_BYTES))

    assert size_px(thumbnail) == (128, 85)
    assert b"\xff\xfe" not in thumbnail[:64]


def test_a_picture_with_transparency_becomes_a_jpeg() -> None:
    file = io.BytesIO()
    Image.new("RGBA", (300, 300)).save(file, "PNG")

    assert size_px(thumbnails.shrink(file.getvalue())) == (128, 128)


def test_a_picture_that_says_how_it_was_held_is_turned() -> None:
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # orientation: a quarter turn
    Image.new("RGB", (300, 150)).save(file, "JPEG", exif=exif)

    assert size_px(thumbnails.shrink(file.getvalue())) == (64, 128)


BROKEN = [base64.b64encode(body).decode() for body in (b"no picture", b"", picture(SMALL_BYTES)[:9_000])]


@pytest.mark.parametrize("body", ["no base64", *BROKEN])
def test_what_is_no_picture_is_refused(body: str) -> None:
    event = {"requestContext": {"http": {"method": "POST"}}, "body": body}

    answer = thumbnails.requested(event, None)

    assert (answer["statusCode"], answer["body"]) == (415, "expected a picture: JPEG, PNG, GIF or WebP")


class Application:
    """Answers once it may, and remembers how many requests it had at once."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.running = self.most_running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await self.goes_on.wait()
        self.running -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})


def test_a_few_requests_run_a_few_wait_and_all_others_are_refused_at_once() -> None:
    async def scenario() -> None:
        app = Application()
        admission = Admission(app, running=2, waiting=3)
        statuses: list[int] = []

        async def send(message: Any) -> None:
            if "status" in message:
                statuses.append(message["status"])

        async with asyncio.TaskGroup() as requests:
            for _ in range(9):
                requests.create_task(admission({"type": "http"}, None, send))  # type: ignore[arg-type]
            await asyncio.sleep(0)  # each has begun
            refused_meanwhile = list(statuses)
            app.goes_on.set()

        assert refused_meanwhile == [503] * 4
        assert sorted(statuses) == [200] * 5 + [503] * 4
        assert app.most_running == 2

    asyncio.run(scenario())


def test_a_place_is_free_again_after_a_request_that_failed() -> None:
    async def scenario() -> list[int]:
        async def fail(scope: Any, receive: Any, send: Any) -> None:
            raise ConnectionError

        admission = Admission(fail, running=1, waiting=0)
        failures = 0
        for _ in range(3):
            try:
                await admission({"type": "http"}, None, None)  # type: ignore[arg-type]
            except ConnectionError:
                failures += 1
        return [failures]

    assert asyncio.run(scenario()) == [3]
