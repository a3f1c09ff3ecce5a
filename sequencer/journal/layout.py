"""Constants of the record layout, for the uncompiled build; record.pxd repeats them."""

from typing import Final

# Results of `Walk.next` and `Walk.skim`.
MORE: Final = 0
RECORD: Final = 1
BAD: Final = 2

HEADER_SIZE: Final = 56
LENGTH_MAX: Final = 1 << 27  # twice the largest payload and control line that can be configured
ID_FLAG: Final = 1  # the headers include a Nats-Msg-Id
SCOPE_FLAG: Final = 2  # the id counts for this subject only
STREAM_FLAG: Final = 4  # the id counts for the stream that has this subject
