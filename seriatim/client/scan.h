/* One MSG or HMSG line in the form in which brokers write it: upper case, single blanks. */
#ifndef SERIATIM_CLIENT_SCAN_H
#define SERIATIM_CLIENT_SCAN_H

#include <string.h>

struct message_line {
    Py_ssize_t subject, subject_end, reply, reply_end; /* spans */
    Py_ssize_t head, size, body;                       /* sizes, and where the headers begin */
    long long sid;
};

/* Digits up to `stop`; -1 if there is something else, or too many of them. */
static inline long long line_decimal(const unsigned char *data, Py_ssize_t at, Py_ssize_t stop) {
    long long value = 0;
    if (at >= stop || stop - at > 10) return -1;
    for (; at < stop; at++) {
        unsigned digit = data[at] - '0';
        if (digit > 9) return -1;
        value = value * 10 + digit;
    }
    return value;
}

/* 1 if a whole line begins at `at` and is understood; 0 if it must be looked at otherwise. */
static inline int message_line_read(const unsigned char *data, Py_ssize_t at, Py_ssize_t end,
                                    struct message_line *line) {
    const unsigned char *found;
    Py_ssize_t words[8], count = 0, stop, from;
    int headed;
    if (end - at < 8) return 0;
    headed = data[at] == 'H';
    if (memcmp(data + at + headed, "MSG ", 4) != 0) return 0;
    found = memchr(data + at, '\n', end - at);
    if (found == NULL) return 0;
    stop = found - data;
    line->body = stop + 1;
    if (data[--stop] != '\r') return 0;
    from = at + 4 + headed;
    words[count++] = from;
    for (; from < stop; from++) {
        if (data[from] == ' ') {
            if (count == 6) return 0;
            words[count++] = from + 1;
        } else if (data[from] < ' ') { /* a tab and its like */
            return 0;
        }
    }
    words[count] = stop + 1;
    count -= headed;
    if (count != 3 && count != 4) return 0;
    line->subject = words[0];
    line->subject_end = words[1] - 1;
    line->sid = line_decimal(data, words[1], words[2] - 1);
    line->reply = line->reply_end = words[2];
    if (count == 4) line->reply_end = words[3] - 1;
    line->head = headed ? line_decimal(data, words[count - 1], words[count] - 1) : 0;
    line->size = line_decimal(data, words[count - 1 + headed], words[count + headed] - 1);
    return line->sid >= 0 && line->head >= 0 && line->size >= line->head &&
           line->subject_end > line->subject;
}

/* The number in the broker's own line, whose digits begin at `at`; -1 if it is none, or 0. */
static inline long long message_number(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) {
    unsigned long long value = 0;
    Py_ssize_t from = at;
    for (; at < end && data[at] >= '0' && data[at] <= '9'; at++) value = value * 10 + (data[at] - '0');
    if (at == end || at == from || at - from > 18 || data[at] != '\r' || value == 0) return -1;
    return (long long)value;
}

#endif
