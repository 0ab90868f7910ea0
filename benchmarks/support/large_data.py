"""Large data for readers: the same Parquet files, image and plain file each time, below a folder.

| File | Contents | Bytes |
|---|---|---|
| `table.parquet` | 10 columns of numbers in 4 row groups: chunks of 1 MiB | 40 MiB |
| `lake/part-0.parquet` to `part-3` | a sorted day and 15 columns in 8 row groups: chunks of 512 KiB | 4 × 62 MiB |
| `image.tif` | a cloud-optimized GeoTIFF, tiles of 256 × 256 pixels of some 36 KiB | 150 MiB |
| `large.bin` | bytes | 1 GiB |
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE, LAKE, IMAGE, LARGE = "table.parquet", "lake", "image.tif", "large.bin"
TILE = 256  # pixels
LAKE_FILES, DAYS_PER_FILE = 4, 8
_BLOCK_BYTES = 16 << 20
_SEED = 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the files."""

    table_rows: int = 1 << 19
    lake_rows: int = 1 << 19  # per file
    image_pixels: int = 1 << 14  # per side
    large_bytes: int = 1 << 30

    @classmethod
    def small(cls) -> Sizes:
        """Return sizes for a short run."""
        return cls(1 << 15, 1 << 15, 1 << 11, 1 << 24)


def has_image() -> bool:
    """Return True if rasterio is installed, which writes and reads the image."""
    return importlib.util.find_spec("rasterio") is not None


def write_data(folder: Path, sizes: Sizes) -> None:
    """Write all files below a folder."""
    _write_table(folder / TABLE, sizes.table_rows)
    (folder / LAKE).mkdir()
    for number in range(LAKE_FILES):
        _write_lake(folder / LAKE / f"part-{number}.parquet", number, sizes.lake_rows)
    if has_image():
        _write_image(folder / IMAGE, sizes.image_pixels)
    _write_large(folder / LARGE, sizes.large_bytes)


def _write_table(path: Path, rows: int) -> None:
    numbers = _chance(0)
    _write_parquet(path, {f"c{number}": numbers.random(rows) for number in range(10)}, rows // 4)


def _write_lake(path: Path, number: int, rows: int) -> None:
    import numpy

    numbers = _chance(1 + number)
    days = numpy.repeat(numpy.arange(DAYS_PER_FILE, dtype="int32"), rows // DAYS_PER_FILE) + number * DAYS_PER_FILE
    columns = {f"c{each}": numbers.random(rows) for each in range(15)}
    _write_parquet(path, {"day": days, **columns}, rows // DAYS_PER_FILE)


def _write_parquet(path: Path, columns: dict[str, Any], row_group_rows: int) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(columns)
    parquet.write_table(table, path, row_group_size=row_group_rows, compression="none", use_dictionary=False)


def _write_image(path: Path, side: int) -> None:
    import rasterio
    from rasterio.io import MemoryFile
    from rasterio.shutil import copy

    pixels = _chance(9).integers(0, 16, (side, side), dtype="uint8")  # four bits of eight: deflate halves them
    transform = rasterio.Affine(10, 0, 0, 0, -10, 0)
    shape = {"width": side, "height": side, "count": 1, "dtype": "uint8", "transform": transform, "crs": "EPSG:3857"}
    with MemoryFile() as memory:
        with memory.open(driver="GTiff", tiled=True, blockxsize=TILE, blockysize=TILE, **shape) as image:
            image.write(pixels, 1)
        with memory.open() as image:
            copy(image, path, driver="COG", blocksize=TILE, compress="deflate", level=1, overviews="none")


def _write_large(path: Path, size_bytes: int) -> None:
    numbers = _chance(10)
    with path.open("wb") as file:
        for _ in range(0, size_bytes, _BLOCK_BYTES):
            file.write(numbers.bytes(_BLOCK_BYTES))


def _chance(stream: int) -> Any:
    import numpy

    return numpy.random.default_rng([_SEED, stream])
