/* The bytes of a message that asks for its number, and of the answer. */
#ifndef SERIATIM_CLIENT_PUBLISHING_H
#define SERIATIM_CLIENT_PUBLISHING_H

#include <Python.h>
#include <string.h>

static inline int decimal_width(unsigned long long value) {
    int width = 1;
    while (value >= 10) value /= 10, width++;
    return width;
}

static inline char *decimal_write(char *to, unsigned long long value, int width) {
    for (char *at = to + width; at > to; value /= 10) *--at = (char)('0' + value % 10);
    return to + width;
}

static inline char *text_write(char *to, const char *text, Py_ssize_t size) {
    memcpy(to, text, size);
    return to + size;
}

#define ID_LINE "\r\nNATS/1.0\r\nNats-Msg-Id: "

/* `prefix` token SP headers SP all CRLF, the headers with the id `nonce.token`, the payload, CRLF. */
static inline PyObject *message_bytes(const char *prefix, Py_ssize_t prefix_size,
                                      const char *nonce, Py_ssize_t nonce_size,
                                      unsigned long long token, Py_ssize_t head,
                                      const char *payload, Py_ssize_t size) {
    int token_width = decimal_width(token), head_width = decimal_width(head),
        all_width = decimal_width(head + size);
    PyObject *made = PyBytes_FromStringAndSize(NULL, prefix_size + token_width + 1 + head_width + 1 +
                                                         all_width + 2 + head + size + 2);
    if (made == NULL) return NULL;
    char *at = text_write(PyBytes_AS_STRING(made), prefix, prefix_size);
    at = decimal_write(at, token, token_width);
    *at++ = ' ';
    at = decimal_write(at, head, head_width);
    *at++ = ' ';
    at = decimal_write(at, head + size, all_width);
    at = text_write(at, ID_LINE, sizeof ID_LINE - 1);
    at = text_write(at, nonce, nonce_size);
    *at++ = '.';
    at = decimal_write(at, token, token_width);
    at = text_write(at, "\r\n\r\n", 4);
    at = text_write(at, payload, size);
    text_write(at, "\r\n", 2);
    return made;
}

/* Digits from `at` to `end`; -1 if there is anything else. */
static inline long long digits_read(const char *text, Py_ssize_t at, Py_ssize_t end) {
    long long value = 0;
    if (at >= end || end - at > 18) return -1;
    for (; at < end; at++) {
        if (text[at] < '0' || text[at] > '9') return -1;
        value = value * 10 + (text[at] - '0');
    }
    return value;
}

/* The token at the end of a reply subject; -1 if there is none. */
static inline long long token_of(PyObject *subject, Py_ssize_t cut) {
    if (!PyUnicode_IS_COMPACT_ASCII(subject)) return -1;
    return digits_read((const char *)PyUnicode_DATA(subject), cut, PyUnicode_GET_LENGTH(subject));
}

/* The number in the netstring `5:88485,`; -1 if it is none. */
static inline long long number_of(PyObject *payload) {
    if (!PyBytes_CheckExact(payload)) return -1;
    const char *text = PyBytes_AS_STRING(payload);
    Py_ssize_t size = PyBytes_GET_SIZE(payload);
    const char *colon = memchr(text, ':', size);
    if (colon == NULL || text[size - 1] != ',') return -1;
    if (digits_read(text, 0, colon - text) != size - (colon - text) - 2) return -1;
    return digits_read(text, colon - text + 1, size - 1);
}

#endif
