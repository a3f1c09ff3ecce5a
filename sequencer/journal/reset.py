"""Resets a store: all its messages are removed, and it continues after another number.

    store.json says that it is to be done    from here on the store opens as the new one
    the window, all segments and indexes removed
    .highest, and an empty segment
    store.json says that it is done

After a crash between any two steps, the next opening does the reset once more.
"""

import os
from contextlib import suppress

from sequencer.journal.disk import sync_folder
from sequencer.journal.header import INDEX, SEGMENT, SUBJECTS, Head, number_of
from sequencer.journal.high_water import FILE as HIGHEST
from sequencer.journal.high_water import start
from sequencer.journal.identity import ANEW, Identity, write_identity
from sequencer.journal.segment import Segment
from sequencer.journal.window_file import remove_window


def reset_store(path: str, identity: Identity) -> Segment:
    """Do the reset in `identity.pending`, which store.json already has; return the empty segment.

    Raises OSError if the disk fails; then call it again.
    """
    assert identity.pending is not None, "it says what to do"
    kind, number, epoch = identity.pending
    assert kind == ANEW, "a cut is not made here"
    for name in sorted(os.listdir(path), reverse=True):
        if any(number_of(name, kind) for kind in (SEGMENT, INDEX, SUBJECTS)):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))
    remove_window(path)
    sync_folder(path)
    start(os.path.join(path, HIGHEST), identity.journal, number)
    head = Head(identity.salt, identity.journal, number + 1, 0, epoch, before=epoch)
    made = Segment.create(path, head)
    try:
        sync_folder(path)
        write_identity(path, identity._replace(pending=None, window=0))
    except BaseException:
        made.close()
        raise
    return made
