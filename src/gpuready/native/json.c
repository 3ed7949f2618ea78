/* As much JSON as it takes to find one text in an OCI state or configuration. */

#include "hook.h"

#include <string.h>

#define MOST_LEVELS 64

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

static int take(struct cursor *c, char wanted) {
    skip_space(c);
    if (c->at >= c->end || *c->at != wanted) return -1;
    c->at++;
    return 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static int take_unicode(struct cursor *c) {
    int value = 0;
    if (c->end - c->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*c->at++);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* One character of a text as bytes; their number, 0 at the closing quote, -1 for no text. */
static int take_char(struct cursor *c, char out[4]) {
    if (c->at >= c->end) return -1;
    unsigned char first = (unsigned char)*c->at++;
    if (first == '"') return 0;
    out[0] = (char)first;
    if (first < 0x20) return -1;
    if (first != '\\') return 1;
    if (c->at >= c->end) return -1;

    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char escape = *c->at++;
    const char *found = escape ? strchr(from, escape) : NULL;
    if (found) {
        out[0] = to[found - from];
        return 1;
    }
    if (escape != 'u') return -1;
    int value = take_unicode(c);
    if (value <= 0 || (value >= 0xd800 && value <= 0xdfff)) return -1; /* in no path of a runtime */
    if (value < 0x80) {
        out[0] = (char)value;
        return 1;
    }
    if (value < 0x800) {
        out[0] = (char)(0xc0 | value >> 6);
        out[1] = (char)(0x80 | (value & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | value >> 12);
    out[1] = (char)(0x80 | (value >> 6 & 0x3f));
    out[2] = (char)(0x80 | (value & 0x3f));
    return 3;
}

/* A text, cut to `size` where it does not fit; its whole length, or -1. */
static long take_text(struct cursor *c, char *out, size_t size) {
    long length = 0;
    if (take(c, '"')) return -1;
    for (;;) {
        char bytes[4];
        int count = take_char(c, bytes);
        if (count < 0) return -1;
        if (count == 0) break;
        for (int i = 0; i < count; i++, length++)
            if ((size_t)length + 1 < size) out[length] = bytes[i];
    }
    if (size) out[(size_t)length < size ? (size_t)length : size - 1] = 0;
    return length;
}

/* A number, true, false or null; what exactly is nothing to us. */
static int skip_word(struct cursor *c) {
    const char *start = c->at;
    while (c->at < c->end && !strchr(",]} \t\r\n\"", *c->at)) c->at++;
    return c->at > start ? 0 : -1;
}

static int skip_value(struct cursor *c, int levels) {
    skip_space(c);
    if (c->at >= c->end || levels > MOST_LEVELS) return -1;
    if (*c->at == '"') return take_text(c, NULL, 0) < 0 ? -1 : 0;
    if (*c->at != '{' && *c->at != '[') return skip_word(c);

    char close = *c->at == '{' ? '}' : ']';
    c->at++;
    if (!take(c, close)) return 0;
    do {
        if (close == '}' && (take_text(c, NULL, 0) < 0 || take(c, ':'))) return -1;
        if (skip_value(c, levels + 1)) return -1;
    } while (!take(c, ','));
    return take(c, close);
}

int json_text(const char *json, size_t length, const char *const *path, char *out, size_t size) {
    struct cursor c = {json, json + length};
    while (*path) {
        char key[256];
        if (take(&c, '{')) return -1;
        for (;;) {
            if (take_text(&c, key, sizeof key) < 0 || take(&c, ':')) return -1;
            if (!strcmp(key, *path)) break;
            if (skip_value(&c, 0) || take(&c, ',')) return -1;
        }
        path++;
    }
    long found = take_text(&c, out, size);
    return found < 0 || (size_t)found >= size || strlen(out) != (size_t)found ? -1 : 0;
}
