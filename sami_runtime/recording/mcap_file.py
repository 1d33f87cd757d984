"""Writes MCAP files in chunks; the file is valid after every chunk.

The end of an MCAP file may list all chunks (an index, for tools) or none. Each chunk overwrites the current end of the
file and adds a new end: with an index, as long as all indexes written so far sum to at most `INDEX_BYTES`; then without
one, which takes 50 bytes. `close` writes the complete index. So if the process is killed, the file is valid, and tools
that need an index can open it if it is short. If the kill falls into the write (some 0.1 ms for each chunk), the file
ends in the middle: this package still reads all complete chunks, but other tools have to repair it first.

Another thread compresses and writes, so that the caller does not wait for the disk.
"""

from __future__ import annotations

import errno
import os
import queue
import struct
import threading
import zlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, BinaryIO

from sami_runtime.distribution import install_hint
from sami_runtime.errors import RecordingError

MAGIC = b"\x89MCAP0\r\n"
MESSAGE = struct.Struct("<BQHIQQ")
"""Head of a message: opcode, length, channel, sequence, log time, publish time."""
PLACE, PLACES = struct.Struct("<QQ"), struct.Struct("<BQHI")
"""Entry of a message index (log time, offset in the chunk), and the head before the entries of a channel."""
MESSAGE_KIND, PLACES_KIND, FOOTER_KIND = 5, 7, 2
INDEX_BYTES = 1 << 20
"""Most bytes of indexes that are written before `close`. Each index lists all chunks, so an index after every chunk
would take quadratic space, and building a long one delays the loop."""
MOST_WAITING_BYTES = 256 << 20
"""Most bytes that wait for the disk: minutes of ticks. A disk that falls behind further counts as failed."""
Part = tuple[bytes, dict[int, bytearray], int, int]
"""A chunk's uncompressed bytes, message indexes by channel, first and last log time."""


def mcap_parts() -> Any:
    """Import and return the parts of mcap that are used; the runtime works without mcap.

    Raises:
        RecordingError: A package is missing.
    """
    try:
        import lz4.frame  # mcap brings both
        import zstandard
        from mcap import data_stream, exceptions, records, stream_reader
    except ModuleNotFoundError as error:
        raise RecordingError(f"recordings need the package {error.name}: {install_hint('record')}") from None
    kinds = "Channel Chunk ChunkIndex DataEnd Header Message Metadata MetadataIndex Schema Statistics"
    return SimpleNamespace(
        **{name: getattr(records, name) for name in kinds.split()},
        RecordBuilder=data_stream.RecordBuilder,
        StreamReader=stream_reader.StreamReader,
        breakup_chunk=stream_reader.breakup_chunk,
        lz4=lz4.frame,
        zstandard=zstandard,
        EndOfFile=exceptions.EndOfFile,
        McapError=exceptions.McapError,
    )


class ChunkedFile:
    """Writes an MCAP file; only `close` waits for the disk.

    Args:
        file: An empty file, opened for writing bytes without a buffer.
        mcap: See `mcap_parts`.
        library: Name and version of the writing program, for the file's header.
    """

    def __init__(self, file: BinaryIO, mcap: Any, library: str) -> None:
        self._file, self._mcap = file, mcap
        self._packer = mcap.zstandard.ZstdCompressor(level=1)
        self.error: BaseException | None = None
        """The first error of writing, of any kind; nothing is written after it."""
        self._handed = self._processed = self._indexed = 0
        self._declared, self._channels = b"", 0
        self._indexes, self._metadata_indexes = bytearray(), bytearray()
        self._chunks = self._metadata = self._sequence = 0
        self._first, self._last, self._counts = 0, 0, dict[int, int]()
        self._part, self._places, self._described = bytearray(), dict[int, bytearray](), 0
        self._from = self._to = 0
        self._at = file.write(MAGIC + self._record(mcap.Header(profile="", library=library)))
        self._queue: queue.SimpleQueue[Part | Any | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recording", daemon=True)
        self._thread.start()

    def channel(self, topic: str, name: str, encoding: tuple[str, str], data: bytes, about: Mapping[str, str]) -> int:
        """Declare a topic before its first message, and return its number.

        Args:
            topic: Name of the topic.
            name: Name of its schema.
            encoding: Encoding of the schema, and encoding of the messages.
            data: The schema.
            about: Metadata of the topic.
        """
        self._channels += 1  # each channel has its own schema, of the same number
        schema = self._mcap.Schema(id=self._channels, name=name, encoding=encoding[0], data=data)
        channel = self._mcap.Channel(
            id=self._channels, schema_id=self._channels, topic=topic, message_encoding=encoding[1], metadata=dict(about)
        )
        self._declared += self._record(schema) + self._record(channel)
        return self._channels

    def add(self, channel: int, data: bytes, log_time: int, publish_time: int) -> None:
        """Add a message to the current chunk; both times are in ns since 1970."""
        if self._described < len(self._declared):  # a reader needs the channels before their first messages
            self._part += self._declared[self._described :]
            self._described = len(self._declared)
        self._sequence += 1
        self._from, self._to = min(self._from, log_time) if self._places else log_time, max(self._to, log_time)
        # As bytes, not tuples: hundreds of tuples a second would start the garbage collector in the loop.
        self._places.setdefault(channel, bytearray()).extend(PLACE.pack(log_time, len(self._part)))
        self._part += MESSAGE.pack(MESSAGE_KIND, 22 + len(data), channel, self._sequence, log_time, publish_time)
        self._part += data

    @property
    def filled(self) -> int:
        """Size of the current chunk [bytes]."""
        return len(self._part)

    def end_chunk(self) -> None:
        """End the current chunk, and hand it to the writing thread."""
        if self._places:
            self._handed += len(self._part)
            if self.error is None and self._handed - self._processed > MOST_WAITING_BYTES:
                self.error = OSError(errno.ETIMEDOUT, "the disk is too slow: too many ticks wait for it")
            if self.error is None:
                self._queue.put((bytes(self._part), self._places, self._from, self._to))
            self._part, self._places = bytearray(), {}

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """End the current chunk, and hand a metadata record to the writing thread after it."""
        self.end_chunk()
        self._queue.put(self._mcap.Metadata(name=name, metadata=dict(values)))

    def close(self) -> None:
        """Write the remaining messages and the complete index.

        Raises:
            BaseException: The first error of writing, now or before; see `error`.
        """
        self.end_chunk()
        self._queue.put(None)
        self._thread.join()
        if self.error:
            raise self.error

    def _work(self) -> None:
        last = False
        while not last:
            job = self._queue.get()
            last = job is None
            if self.error is not None:
                continue  # drop waiting parts, which would fill the memory
            # If an error ended this thread, later ticks would be lost without a message.
            try:
                if isinstance(job, tuple):
                    self._write(self._chunk(*job))
                    self._processed += len(job[0])
                else:
                    self._write(b"" if job is None else self._metadata_bytes(job), whole=last)
            except BaseException as error:
                self.error = error

    def _write(self, data: bytes, whole: bool = False) -> None:
        """Replace the end of the file by new bytes and a new end; truncate first, so that old and new never mix.

        The index is left out if it is long, unless `whole` is set.
        """
        at = self._at + len(data)
        listed = len(self._declared) + len(self._indexes) + len(self._metadata_indexes)
        whole = whole or self._indexed + listed <= INDEX_BYTES
        self._indexed += listed if whole else 0
        payload = data + (self._index(at) if whole else self._end())
        os.ftruncate(self._file.fileno(), self._at)
        count = os.pwrite(self._file.fileno(), payload, self._at)
        if count < len(payload):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._at = at

    def _chunk(self, part: bytes, places: Mapping[int, bytearray], first: int, last: int) -> bytes:
        mcap, packed = self._mcap, self._packer.compress(part)
        chunk = self._record(mcap.Chunk("zstd", packed, last, first, zlib.crc32(part), len(part)))
        indexes, offsets = bytearray(), {}
        for channel, place_records in places.items():
            offsets[channel] = self._at + len(chunk) + len(indexes)
            indexes += PLACES.pack(PLACES_KIND, 6 + len(place_records), channel, len(place_records)) + place_records
            self._counts[channel] = self._counts.get(channel, 0) + len(place_records) // PLACE.size
        self._indexes += self._record(
            mcap.ChunkIndex(len(chunk), self._at, "zstd", len(packed), last, len(indexes), offsets, first, len(part))
        )
        self._first = min(self._first, first) if self._chunks else first
        self._last = max(self._last, last)
        self._chunks += 1
        return chunk + bytes(indexes)

    def _metadata_bytes(self, metadata: Any) -> bytes:
        record = self._record(metadata)
        self._metadata_indexes += self._record(
            self._mcap.MetadataIndex(offset=self._at, length=len(record), name=metadata.name)
        )
        self._metadata += 1
        return record

    def _end(self) -> bytes:
        """Return the end of a file without an index: the offset of its summary is 0."""
        footer = struct.pack("<BQQQ", FOOTER_KIND, 20, 0, 0)
        data_end = self._record(self._mcap.DataEnd(data_section_crc=0))
        return data_end + footer + struct.pack("<I", zlib.crc32(footer)) + MAGIC

    def _index(self, start: int) -> bytes:
        """Return the end of a file with its index, if the data end at the offset `start`."""
        mcap = self._mcap
        data_end = self._record(mcap.DataEnd(data_section_crc=0))
        statistics = mcap.Statistics(
            attachment_count=0,
            channel_count=self._channels,
            channel_message_counts=self._counts,
            chunk_count=self._chunks,
            message_count=sum(self._counts.values()),
            message_end_time=self._last,
            message_start_time=self._first,
            metadata_count=self._metadata,
            schema_count=self._channels,
        )
        summary = self._declared + self._record(statistics) + bytes(self._indexes) + bytes(self._metadata_indexes)
        footer = struct.pack("<BQQQ", FOOTER_KIND, 20, start + len(data_end), 0)  # the checksum follows, and covers it
        return data_end + summary + footer + struct.pack("<I", zlib.crc32(summary + footer)) + MAGIC

    def _record(self, record: Any) -> bytes:
        builder = self._mcap.RecordBuilder()
        record.write(builder)
        data: bytes = builder.end()
        return data
