"""The errors of the storage engine."""


class StorageError(Exception):
    """Base of the errors of the storage engine."""


class LogFailed(StorageError):
    """The disk has failed, so the log accepts no more writes; reads still work. KAFKA_STORAGE_ERROR in Kafka."""


class OutOfSpace(LogFailed):
    """The disk is full, or no file can be opened: nothing was appended. The log is as it was, and takes writes again
    when there is room."""


class LogCorrupt(StorageError):
    """Data that was safely on disk is damaged or gone. The log is not opened; the text says what to do."""


class FileDamaged(StorageError):
    """A small file of the data folder does not hold what was written to it. The text says what to do."""


class OffsetOutOfRange(StorageError):
    """The offset is beyond the end of the log, or before its start."""


class BatchTooLarge(StorageError):
    """A batch above max.message.bytes, or one append above segment.bytes."""


class InvalidAppend(StorageError):
    """Batches whose offsets do not continue the log, or whose counts do not add up."""
