"""Pixels as a PNG file, with the standard library alone."""

import struct
import zlib

import numpy as np

COLOURS = 256  # of a palette, at most
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(pixels: np.ndarray) -> bytes:
    """A PNG file from colours [height, width, 3], 8 bits each."""
    return _file(pixels, 2)


def strip(pictures: np.ndarray) -> bytes:
    """Pictures [number, height, width, 3] stacked vertically, in at most 256 colours. What does
    not change between pictures takes almost no space: the compressor's window is larger than a
    small picture."""
    palette, choice = _palette(pictures)
    return _file(choice.reshape(-1, pictures.shape[2], 1), 3, (b"PLTE", palette.tobytes()))


def size_of(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG file; None if it is not one."""
    if len(data) < 24 or data[:8] != SIGNATURE or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _file(pixels: np.ndarray, kind: int, *more: tuple[bytes, bytes]) -> bytes:
    height, width, _ = pixels.shape
    # Each row starts with the filter type: none.
    rows = np.insert(pixels.reshape(height, -1), 0, 0, axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 9)
    parts = ((b"IHDR", header), *more, (b"IDAT", data), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _palette(pictures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most common colours [256, 3], and the nearest of them for each pixel. Colours are
    distinguished by the first five bits of each channel."""
    flat = pictures.reshape(-1, 3)
    bins = (flat.astype(np.int32) >> 3) @ np.array([1024, 32, 1], np.int32)
    count = np.bincount(bins, minlength=2**15)
    used = np.flatnonzero(count)
    mean = np.stack(
        [np.bincount(bins, flat[:, c], 2**15)[used] / count[used] for c in range(3)], axis=-1
    )
    commonest = np.argsort(-count[used], kind="stable")[:COLOURS]
    palette = mean[commonest].round()
    nearest = np.zeros(2**15, np.uint8)
    for start in range(0, len(used), 1024):  # in chunks, because the table of distances is large
        part = slice(start, start + 1024)
        distance = np.square(mean[part, None] - palette).sum(-1)
        nearest[used[part]] = distance.argmin(-1)
    return palette.astype(np.uint8), nearest[bins].reshape(pictures.shape[:-1])


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
