/* The walk of record_walk.py, compiled: the same records are sound to both, and the same are refused.
 *
 * It is optional. hatch_build.py compiles it where there is a C compiler, compiled_walk.py loads it with ctypes, and
 * record_walk.py does without it where it is missing. It uses neither Python's headers nor the C library, so one build
 * serves every version of Python on its platform.
 *
 * Nothing is read outside of data[position..end): every function below looks at `at < end` before it reads a byte, and
 * a length is added to `at` only after it was compared with the bytes that remain. Every step of a loop uses up at least
 * one byte, so the time is in proportion to the bytes.
 */

#include <stdint.h>

enum { SOUND, CUT_OFF, BAD_VARINT, BAD_LENGTH, BAD_OFFSET, BAD_HEADERS, BAD_END };

enum { MIN_RECORD_BYTES = 7, MIN_HEADER_BYTES = 2, MAX_VARINT_BYTES = 5, MAX_VARLONG_BYTES = 10 };

typedef struct {
    const uint8_t *data;
    int64_t at;
    int64_t end;
    int problem; /* the first one that was met */
} Reader;

/* Notes the problem, and moves to the end so that nothing more is read. */
static int64_t fail(Reader *reader, int problem)
{
    if (reader->problem == SOUND)
        reader->problem = problem;
    reader->at = reader->end;
    return 0;
}

/* A zig-zag varint of at most max_bytes, whose value fits `bits`. */
static int64_t read_zigzag(Reader *reader, int max_bytes, int bits)
{
    uint64_t raw = 0;
    for (int used = 0; used < max_bytes; used++) {
        if (reader->at >= reader->end)
            return fail(reader, CUT_OFF);
        uint8_t byte = reader->data[reader->at++];
        uint64_t digit = byte & 0x7F;
        int shift = 7 * used;
        if (shift + 7 > bits && digit >> (bits - shift))
            return fail(reader, BAD_VARINT);
        raw |= digit << shift;
        if (byte < 0x80)
            return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    }
    return fail(reader, BAD_VARINT);
}

static int64_t read_varint(Reader *reader)
{
    if (reader->at < reader->end && reader->data[reader->at] < 0x80) { /* one byte, as nearly always */
        uint8_t raw = reader->data[reader->at++];
        return (raw >> 1) ^ -(raw & 1);
    }
    return read_zigzag(reader, MAX_VARINT_BYTES, 32);
}

/* Steps over `size` bytes. */
static void skip(Reader *reader, int64_t size)
{
    if (size > reader->end - reader->at)
        fail(reader, CUT_OFF);
    else
        reader->at += size;
}

/* Steps over a length and as many bytes; a length of -1 means null. Returns whether it was null. */
static int skip_nullable(Reader *reader)
{
    int64_t size = read_varint(reader);
    if (size < -1)
        fail(reader, BAD_LENGTH);
    else if (size > 0)
        skip(reader, size);
    return size == -1;
}

static void skip_headers(Reader *reader, int64_t record_end)
{
    int64_t count = read_varint(reader);
    if (count < 0 || count * MIN_HEADER_BYTES > record_end - reader->at) {
        fail(reader, BAD_HEADERS);
        return;
    }
    while (count-- > 0 && reader->problem == SOUND) {
        int64_t key_size = read_varint(reader);
        if (key_size < 0)
            fail(reader, BAD_HEADERS);
        else
            skip(reader, key_size);
        skip_nullable(reader);
    }
}

/* Returns SOUND, and in `seen` the least and the greatest timestamp delta and whether a key was null; or the problem. */
int kohort_walk_records(const uint8_t *data, int64_t position, int64_t end, int64_t count, int64_t seen[3])
{
    Reader reader = {data, position, end, SOUND};
    int64_t min_delta = INT64_MAX, max_delta = INT64_MIN, has_null_key = 0;
    if (count * MIN_RECORD_BYTES > end - position)
        return CUT_OFF;
    for (int64_t index = 0; index < count; index++) {
        int64_t size = read_varint(&reader);
        if (size < 0)
            return BAD_LENGTH;
        if (size > end - reader.at)
            return CUT_OFF;
        int64_t record_end = reader.at + size;
        skip(&reader, 1); /* the attributes, which Kafka ignores */
        int64_t delta = read_zigzag(&reader, MAX_VARLONG_BYTES, 64);
        if (delta < min_delta)
            min_delta = delta;
        if (delta > max_delta)
            max_delta = delta;
        if (read_varint(&reader) != index)
            return reader.problem ? reader.problem : BAD_OFFSET;
        has_null_key |= skip_nullable(&reader);
        skip_nullable(&reader);
        skip_headers(&reader, record_end);
        if (reader.problem != SOUND)
            return reader.problem;
        if (reader.at != record_end)
            return BAD_END;
    }
    if (reader.at != end)
        return BAD_END;
    seen[0] = min_delta;
    seen[1] = max_delta;
    seen[2] = has_null_key;
    return SOUND;
}
