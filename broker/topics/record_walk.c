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

enum { SOUND, CUT_OFF, BAD_VARINT, BAD_LENGTH, BAD_OFFSET, BAD_HEADERS, BAD_END, TOO_MANY };

enum { MIN_RECORD_BYTES = 7, MIN_HEADER_BYTES = 2, MAX_VARINT_BYTES = 5, MAX_VARLONG_BYTES = 10, NULL_LENGTH = 1 };

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

/* Where the walk is in a record, when it goes on with the next bytes. */
enum { AT_RECORD, AT_VALUE, AT_HEADERS, AT_HEADER_KEY, AT_HEADER_VALUE, AT_END };

/* A walk that may be given its bytes in pieces. Places count from the first byte of the first piece. */
typedef struct {
    int64_t next;          /* AT_RECORD and so on: what is read when `skip` bytes are passed */
    int64_t skip;          /* bytes of a key or value that still have to be stepped over */
    int64_t index;         /* of the record */
    int64_t count;         /* of records that there must be */
    int64_t elements_left; /* so many headers may still come */
    int64_t passed;        /* bytes in earlier pieces */
    int64_t record_end;    /* the place where the record's length says that it ends */
    int64_t headers_left;
    int64_t min_delta, max_delta, has_null_key; /* what was seen of timestamps and keys */
} Walk;

/* Steps over a key or value of `size` bytes, then `next` is read. */
static inline void pass(Reader *reader, Walk *walk, int64_t place, int64_t size, int next)
{
    walk->next = next;
    walk->skip = size > 0 ? size : 0;
    if (walk->skip > walk->record_end - place)
        fail(reader, BAD_END);
}

/* Reads one number, or the numbers at the start of a record. Changes the walk only if all of them were there. */
static inline void walk_step(Reader *reader, Walk *walk, int64_t base)
{
    int64_t size = read_varint(reader), start = reader->at;
    int64_t place = base + reader->at;
    if (reader->problem)
        return;
    switch (walk->next) {
    case AT_RECORD: {
        if (reader->at >= reader->end) {
            fail(reader, CUT_OFF);
            return;
        }
        reader->at++; /* the attributes, which Kafka ignores */
        int64_t delta = read_zigzag(reader, MAX_VARLONG_BYTES, 64);
        int64_t offset_delta = read_varint(reader);
        int64_t key_size = read_varint(reader);
        if (reader->problem)
            return;
        if (size < 0 || key_size < -1) {
            fail(reader, BAD_LENGTH);
            return;
        }
        if (offset_delta != walk->index) {
            fail(reader, BAD_OFFSET);
            return;
        }
        if (delta < walk->min_delta)
            walk->min_delta = delta;
        if (delta > walk->max_delta)
            walk->max_delta = delta;
        walk->has_null_key |= key_size == -1;
        walk->record_end = base + start + size;
        pass(reader, walk, base + reader->at, key_size, AT_VALUE);
        return;
    }
    case AT_VALUE:
        if (size < -1)
            fail(reader, BAD_LENGTH);
        else
            pass(reader, walk, place, size, AT_HEADERS);
        return;
    case AT_HEADERS:
        if (size < 0 || size * MIN_HEADER_BYTES > walk->record_end - place) {
            fail(reader, BAD_HEADERS);
            return;
        }
        walk->elements_left -= size;
        if (walk->elements_left < 0)
            fail(reader, TOO_MANY);
        walk->headers_left = size;
        walk->next = size ? AT_HEADER_KEY : AT_END;
        return;
    case AT_HEADER_KEY:
        if (size < 0)
            fail(reader, BAD_HEADERS);
        else
            pass(reader, walk, place, size, AT_HEADER_VALUE);
        return;
    default: /* AT_HEADER_VALUE */
        if (size < -1)
            fail(reader, BAD_LENGTH);
        else
            pass(reader, walk, place, size, --walk->headers_left ? AT_HEADER_KEY : AT_END);
    }
}

/* Walks as far as the bytes reach. If more come, a number that is cut off is left for the next piece. */
static void walk_on(Reader *reader, Walk *walk, int is_last)
{
    int64_t base = walk->passed - reader->at;
    while (reader->problem == SOUND) {
        int64_t here = reader->end - reader->at;
        if (walk->skip > here) {
            walk->skip -= here;
            reader->at = reader->end;
            if (is_last)
                fail(reader, CUT_OFF);
            break;
        }
        reader->at += walk->skip;
        walk->skip = 0;
        if (walk->next == AT_END) {
            if (base + reader->at != walk->record_end) {
                fail(reader, BAD_END);
                break;
            }
            walk->index++;
            walk->next = AT_RECORD;
        }
        if (walk->next == AT_RECORD && walk->index == walk->count) {
            if (reader->at != reader->end)
                fail(reader, BAD_END);
            break;
        }
        int64_t before = reader->at;
        walk_step(reader, walk, base);
        if (reader->problem == CUT_OFF && !is_last) {
            reader->problem = SOUND;
            reader->at = before;
            break;
        }
    }
    walk->passed = base + reader->at;
}

/* Begins a walk over `count` records that come in pieces, with at most max_elements records and headers. */
void kohort_begin_walk(Walk *walk, int64_t count, int64_t max_elements)
{
    Walk fresh = {.count = count, .elements_left = max_elements - count, .min_delta = INT64_MAX, .max_delta = INT64_MIN};
    *walk = fresh;
}

/* Goes on with the next piece. Returns SOUND or the problem, and in `used` how many of its bytes are done with: the
 * caller puts the others in front of the next piece. */
int kohort_walk_on(Walk *walk, const uint8_t *data, int64_t size, int is_last, int64_t *used)
{
    Reader reader = {data, 0, size, SOUND};
    walk_on(&reader, walk, is_last);
    *used = reader.at;
    return reader.problem;
}

/* A varint of at most three bytes that ends before `end`, without the zig-zag: -1 is 1. Returns -1 for any other. */
static inline int32_t usual_varint(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *byte = *at;
    if (byte >= end)
        return -1;
    int32_t raw = *byte++;
    if (raw >= 0x80) {
        if (byte >= end)
            return -1;
        raw += (*byte << 7) - 0x80;
        if (*byte++ >= 0x80) {
            if (byte >= end || *byte >= 0x80)
                return -1;
            raw += (*byte++ << 14) - (0x80 << 7);
        }
    }
    *at = byte;
    return raw;
}

/* Steps over a length and as many bytes. Returns the length without its zig-zag, or -1 if they do not end before `end`. */
static inline int32_t usual_bytes(const uint8_t **at, const uint8_t *end)
{
    int32_t raw = usual_varint(at, end);
    if (raw & 1)
        return raw == NULL_LENGTH ? raw : -1;
    if (raw >> 1 > end - *at)
        return -1;
    *at += raw >> 1;
    return raw;
}

/* Walks over usual records in a fraction of the time: nothing is kept in memory between two numbers of a record.
 *
 * Returns 1, and what was seen, if all records are usual and sound. 0 says nothing: the walk above has to decide. */
static int walk_usual(const uint8_t *at, const uint8_t *end, int64_t count, int64_t seen[3])
{
    int32_t min_delta = INT32_MAX, max_delta = INT32_MIN;
    int has_null_key = 0;
    for (int64_t index = 0; index < count; index++) {
        int32_t size = usual_varint(&at, end);
        if (size & 1 || size == 0 || size >> 1 > end - at)
            return 0;
        const uint8_t *record_end = at + (size >> 1);
        at++; /* the attributes */
        int32_t delta = usual_varint(&at, record_end);
        if (delta < 0 || usual_varint(&at, record_end) != 2 * index)
            return 0;
        delta = (delta >> 1) ^ -(delta & 1);
        if (delta < min_delta)
            min_delta = delta;
        if (delta > max_delta)
            max_delta = delta;
        int32_t key = usual_bytes(&at, record_end), value = usual_bytes(&at, record_end);
        int32_t headers = usual_varint(&at, record_end);
        if (key < 0 || value < 0 || headers & 1)
            return 0;
        has_null_key |= key == NULL_LENGTH;
        for (; headers; headers -= 2)
            if (usual_bytes(&at, record_end) & 1 || usual_bytes(&at, record_end) < 0)
                return 0;
        if (at != record_end)
            return 0;
    }
    seen[0] = min_delta;
    seen[1] = max_delta;
    seen[2] = has_null_key;
    return at == end && count > 0;
}

/* Returns SOUND, and in `seen` the least and the greatest timestamp delta and whether a key was null; or the problem. */
int kohort_walk_records(const uint8_t *data, int position, int end, int count, int64_t seen[3])
{
    Reader reader = {data, position, end, SOUND};
    Walk walk;
    if ((int64_t)count * MIN_RECORD_BYTES > end - position)
        return CUT_OFF;
    if (walk_usual(data + position, data + end, count, seen))
        return SOUND;
    kohort_begin_walk(&walk, count, INT64_MAX);
    walk_on(&reader, &walk, 1);
    seen[0] = walk.min_delta;
    seen[1] = walk.max_delta;
    seen[2] = walk.has_null_key;
    return reader.problem;
}
