"""The operations that the byte machine returns, as numbers; machine.pxd repeats them."""

from typing import Final

MORE: Final = 0
PUB: Final = 1
HPUB: Final = 2
SUB: Final = 3
UNSUB: Final = 4
PING: Final = 5
PONG: Final = 6
CONNECT: Final = 7
FAULT: Final = 8
IGNORED: Final = 9
INFO: Final = 10
