"""MCAP files, written in chunks: a valid file after every one of them.

The end of an MCAP file may list all chunks (an index, for tools) or none. Each chunk takes the place of the end before
it and is followed by a new one: with the index, while all indexes together have taken at most `INDEX_BYTES`; without
it from then on, which costs 50 bytes. `close` writes the whole index. So a killed file is valid, and tools that need an
index open a short one at once. A kill in the instant between (some 0.1 ms of each chunk) leaves a file that ends in the
middle: all whole chunks can be read from its beginning, only tools want it repaired.

A thread packs and writes, so that the caller waits for no disk.
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
"""Of a message: opcode, length, channel, sequence, log time, publish time."""
PLACE, PLACES = struct.Struct("<QQ"), struct.Struct("<BQHI")
"""Of a message's index: its log time and place in the chunk; and what stands before those of a channel."""
MESSAGE_KIND, PLACES_KIND, FOOTER_KIND = 5, 7, 2
INDEX_BYTES = 1 << 20
"""How many bytes of indexes are written before the last one. Each lists all chunks, so one a chunk would be quadratic,
and building a long one keeps the loop waiting."""
MOST_WAITING_BYTES = 256 << 20
"""How much may wait for the disk: minutes of ticks. A disk that takes longer has failed."""
Part = tuple[bytes, dict[int, bytearray], int, int]
"""A chunk's bytes before they are packed, the places of messages by channel, first and last log time."""


def mcap_parts() -> Any:
    """Return the parts of mcap that are used. Imported here, because the runtime works without it.

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
    """Writes one; all but `close` returns at once.

    Args:
        file: Where to: empty, opened for writing bytes without a buffer.
        mcap: See `mcap_parts`.
        library: Who writes.
    """

    def __init__(self, file: BinaryIO, mcap: Any, library: str) -> None:
        self._file, self._mcap = file, mcap
        self._packer = mcap.zstandard.ZstdCompressor(level=1)
        self.error: BaseException | None = None
        """What went wrong, of whatever kind; nothing is written after that."""
        self._handed = self._processed = self._indexed = 0
        self._declared, self._channels = b"", 0
        self._indexes, self._metadata_indexes = bytearray(), bytearray()
        self._chunks = self._metadata = self._sequence = 0
        self._first, self._last, self._counts = 0, 0, dict[int, int]()
        self._part, self._places, self._described = bytearray(), dict[int, bytearray](), 0
        self._from = self._to = 0
        self._at = file.write(MAGIC + self._record(mcap.Header(profile="", library=library)))
        self._waiting: queue.SimpleQueue[Part | Any | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recording", daemon=True)
        self._thread.start()

    def channel(self, topic: str, name: str, encoding: tuple[str, str], data: bytes, about: Mapping[str, str]) -> int:
        """Declare a topic before its first message, and return its number.

        Args:
            topic: What it is called.
            name: Of its schema.
            encoding: Of the schema and of the messages.
            data: The schema.
            about: What else is to be known of the topic.
        """
        self._channels += 1  # each has a schema of its own, of the same number
        schema = self._mcap.Schema(id=self._channels, name=name, encoding=encoding[0], data=data)
        channel = self._mcap.Channel(
            id=self._channels,
            schema_id=self._channels,
            topic=topic,
            message_encoding=encoding[1],
            metadata=dict(about),
        )
        self._declared += self._record(schema) + self._record(channel)
        return self._channels

    def add(self, channel: int, data: bytes, log_time: int, publish_time: int) -> None:
        """Put a message into the chunk that is being filled."""
        if self._described < len(self._declared):  # so that whoever reads from the beginning knows the channels
            self._part += self._declared[self._described :]
            self._described = len(self._declared)
        self._sequence += 1
        self._from, self._to = min(self._from, log_time) if self._places else log_time, max(self._to, log_time)
        # Packed at once: hundreds of tuples a second would wake the garbage collector in the loop.
        self._places.setdefault(channel, bytearray()).extend(PLACE.pack(log_time, len(self._part)))
        self._part += MESSAGE.pack(MESSAGE_KIND, 22 + len(data), channel, self._sequence, log_time, publish_time)
        self._part += data

    @property
    def filled(self) -> int:
        """How many bytes the chunk that is being filled has."""
        return len(self._part)

    def end_chunk(self) -> None:
        """Have what was added written."""
        if self._places:
            self._handed += len(self._part)
            if self.error is None and self._handed - self._processed > MOST_WAITING_BYTES:
                self.error = OSError(errno.ETIMEDOUT, "the disk is too slow: too many ticks wait for it")
            if self.error is None:
                self._waiting.put((bytes(self._part), self._places, self._from, self._to))
            self._part, self._places = bytearray(), {}

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Have a metadata record written, after what was added before."""
        self.end_chunk()
        self._waiting.put(self._mcap.Metadata(name=name, metadata=dict(values)))

    def close(self) -> None:
        """Write what is left, and the whole index.

        Raises:
            BaseException: It cannot be written, or something before could not; `error` is what was raised.
        """
        self.end_chunk()
        self._waiting.put(None)
        self._thread.join()
        if self.error:
            raise self.error

    def _work(self) -> None:
        last = False
        while not last:
            job = self._waiting.get()
            last = job is None
            if self.error is not None:
                continue  # what waits is dropped: it would fill the memory
            # A thread that ended by an error of any kind would lose every later tick without a word.
            try:
                if isinstance(job, tuple):
                    self._write(self._chunk(*job))
                    self._processed += len(job[0])
                else:
                    self._write(b"" if job is None else self._metadata_bytes(job), whole=last)
            except BaseException as error:
                self.error = error

    def _write(self, data: bytes, whole: bool = False) -> None:
        """Put bytes where the end is, and a new end behind them. The old one goes first: no mixture is read.

        Args:
            data: What to write.
            whole: Whether the index comes with it, however long it is.
        """
        at = self._at + len(data)
        listed = len(self._declared) + len(self._indexes) + len(self._metadata_indexes)
        whole = whole or self._indexed + listed <= INDEX_BYTES
        self._indexed += listed if whole else 0
        written = data + (self._index(at) if whole else self._end())
        os.ftruncate(self._file.fileno(), self._at)
        count = os.pwrite(self._file.fileno(), written, self._at)
        if count < len(written):
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
        """Return the end of a file that lists nothing: where its summary begins is 0."""
        footer = struct.pack("<BQQQ", FOOTER_KIND, 20, 0, 0)
        data_end = self._record(self._mcap.DataEnd(data_section_crc=0))
        return data_end + footer + struct.pack("<I", zlib.crc32(footer)) + MAGIC

    def _index(self, start: int) -> bytes:
        """Return the end of a file whose data end here, with its index."""
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
        footer = struct.pack("<BQQQ", FOOTER_KIND, 20, start + len(data_end), 0)  # but its checksum, which covers it
        return data_end + summary + footer + struct.pack("<I", zlib.crc32(summary + footer)) + MAGIC

    def _record(self, record: Any) -> bytes:
        builder = self._mcap.RecordBuilder()
        record.write(builder)
        data: bytes = builder.end()
        return data
