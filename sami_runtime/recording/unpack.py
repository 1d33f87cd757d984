"""The records of a recording, one after the other, with no more memory than the file deserves."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from typing import Any

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Largest record that is read, packed or unpacked, so that a damaged or hostile length does not fill the memory."""
MOST_PACKED = 100
"""How many bytes a byte of a file may hold in all, beyond one record; ticks pack to a tenth."""


class TooLargeError(ValueError):
    """A part of the file unpacks to more than is read."""


def records(file: Any, size: int, mcap: Any) -> Iterator[Any]:
    """Yield the records of a file, those in chunks too.

    Args:
        file: What is read from, of `size` bytes.
        size: How many.
        mcap: See `mcap_parts`.

    Raises:
        TooLargeError: A chunk, or all of them, unpack to more than is read.
        McapError, struct.error, ValueError: The file is damaged.
    """
    left = MAX_RECORD_BYTES + MOST_PACKED * size
    reader = mcap.StreamReader(file, validate_crcs=True, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES)
    for record in reader.records:
        if not isinstance(record, mcap.Chunk):
            yield record
            continue
        data = _unpacked(record, min(left, MAX_RECORD_BYTES), mcap)
        left -= len(data)
        yield from mcap.breakup_chunk(dataclasses.replace(record, compression="", data=data), validate_crc=True)


def _unpacked(chunk: Any, most: int, mcap: Any) -> bytes:
    """Return the bytes in a chunk, at most so many."""
    if chunk.compression == "zstd":
        data = _by_pieces(mcap.zstandard.ZstdDecompressor(max_window_size=MAX_RECORD_BYTES), chunk.data, most)
    elif chunk.compression == "lz4":
        try:
            data = mcap.lz4.LZ4FrameDecompressor().decompress(chunk.data, max_length=most + 1)
        except RuntimeError as error:
            raise ValueError(f"a chunk cannot be unpacked: {error}") from error
    elif chunk.compression == "":
        data = chunk.data
    else:
        raise ValueError(f"a chunk is packed by {chunk.compression!r}, which is not known")
    if len(data) > most or chunk.uncompressed_size > MAX_RECORD_BYTES:
        raise TooLargeError(f"{len(chunk.data)} bytes of it unpack to more than {most}, the most that is read")
    return data


def _by_pieces(unpacker: Any, data: bytes, most: int) -> bytes:
    """Return at most so many bytes, and one piece: what a frame says of its size is not believed."""
    pieces, length = [], 0
    try:
        with unpacker.stream_reader(io.BytesIO(data)) as stream:
            while length <= most and (piece := stream.read(1 << 20)):
                pieces.append(piece)
                length += len(piece)
    except Exception as error:  # zstandard's error has no base class but this
        raise ValueError(f"a chunk cannot be unpacked: {error}") from error
    return b"".join(pieces)
