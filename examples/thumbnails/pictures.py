"""Three test pictures of exactly the sizes in Rosa 2022: `python pictures.py FOLDER`.

The bytes are the same on every machine with the same Pillow: noise of a seeded generator, enlarged and blended at
several scales, which JPEG compresses about as well as a photograph. Each picture is saved at the highest quality below
its size. Comment segments, which decoders skip, fill the rest.

Source:
    Rosa 2022, tables 5.1 to 5.3, column "ImageSize (B)". Its pictures' widths and heights are not stated.
"""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path

from PIL import Image

# Bytes → width and height.
SIZES_PX = {18_617: (480, 320), 228_902: (1_500, 1_000), 406_938: (2_400, 1_600)}

_COMMENT_BYTES = range(12, 65_538)  # a comment segment: marker, length, the picture's number, padding
_NUMBER = slice(6, 14)  # in the first comment
_OCTAVES = 8
_SEED = 2022


def picture(size_bytes: int) -> bytes:
    """Return the JPEG of one of `SIZES_PX`, with exactly that size [bytes].

    Raises:
        ValueError: No picture has this size.
    """
    if size_bytes not in SIZES_PX:
        raise ValueError(f"no picture has {size_bytes} bytes; there are {', '.join(map(str, SIZES_PX))}")
    image = _noise(*SIZES_PX[size_bytes])
    below, above = 1, 96  # the half-open range of the search for the quality
    while above - below > 1:
        quality = (below + above) // 2
        fits = len(_jpeg(image, quality)) + _COMMENT_BYTES[0] <= size_bytes
        below, above = (quality, above) if fits else (below, quality)
    return _filled(_jpeg(image, below), size_bytes)


def numbered(picture: bytes, number: int) -> bytes:
    """Return a picture that looks the same, with another cache key."""
    return picture[: _NUMBER.start] + number.to_bytes(8, "big") + picture[_NUMBER.stop :]


def _noise(width_px: int, height_px: int) -> Image.Image:
    """Return noise at several scales, the coarsest strongest."""
    generator = random.Random(_SEED)
    image = Image.new("RGB", (width_px, height_px), "grey")
    for octave in range(_OCTAVES):
        size = (3 << octave, 2 << octave)
        grain = Image.frombytes("RGB", size, generator.randbytes(3 * size[0] * size[1]))
        image = Image.blend(image, grain.resize(image.size, Image.Resampling.BICUBIC), 0.6 / (octave + 1))
    return image


def _jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def _filled(jpeg: bytes, size_bytes: int) -> bytes:
    """Pad a JPEG to a size by comments after its first marker."""
    start, rest = jpeg[:2], jpeg[2:]
    comments = b""
    while missing_bytes := size_bytes - len(jpeg) - len(comments):
        length = min(missing_bytes, _COMMENT_BYTES[-1])
        if 0 < missing_bytes - length < _COMMENT_BYTES[0]:
            length -= _COMMENT_BYTES[0]  # the rest must fit a segment
        comments += b"\xff\xfe" + (length - 2).to_bytes(2, "big") + bytes(length - 4)
    return start + comments + rest


def main() -> None:
    """Write the pictures into the folder given on the command line."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    for size_bytes, (width_px, height_px) in SIZES_PX.items():
        file = folder / f"{size_bytes}.jpg"
        file.write_bytes(picture(size_bytes))
        print(f"{file.name:>10} {size_bytes:>7} bytes, {width_px} × {height_px}")


if __name__ == "__main__":
    main()
