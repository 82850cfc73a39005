"""What a log says when it cannot do what it was asked to."""


class StorageError(Exception):
    """Base of the errors of the storage engine."""


class LogFailed(StorageError):
    """The log takes no more writes, because the disk failed it; reads go on. Kafka's KAFKA_STORAGE_ERROR."""


class LogCorrupt(StorageError):
    """Data that was safely on disk is damaged or gone. The log is not opened; the text says what to do."""


class OffsetOutOfRange(StorageError):
    """The log does not reach to this offset, or no longer does."""


class BatchTooLarge(StorageError):
    """A batch above max.message.bytes, or one append above segment.bytes."""


class InvalidAppend(StorageError):
    """Batches whose offsets do not continue the log, or whose counts do not add up."""
