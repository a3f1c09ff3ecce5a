"""A nemesis of real processes: whatever can happen to a cluster, one after the other, at random.

    SOAK_SECONDS=3600 python -m tests.cluster.nemesis       for an hour
    CRASH_SEED=7 python -m tests.cluster.nemesis            the troubles of a seed, once
    python -m tests.cluster.nemesis "all killed"            only these

Members are killed, stopped, and started again; their clocks and disks are wrong; a store is put
back to a copy of it; as root, links between them are cut. Clients wait for as long as users' do,
so they are refused some messages, and send these again. At each member are publishers with ids, by
request and with `+OK`; live subscribers; two of one queue group; and followers of the journal.

After every few troubles it is judged: all members have one order; nothing acknowledged is missing;
each id has one number; no number came twice to a subscriber or to a queue group; each answer was
that of its message. The seed decides what happens; the scheduler's part cannot be repeated. The
exit status is 1 at the first breach, and 2 if it cannot run here.
"""

import os
import sys
import time
from random import Random, SystemRandom
from typing import Final

from tests.cluster import troubles
from tests.cluster.cluster_peers import Counting, Patient, Quitter
from tests.cluster.cluster_trial import ROUND_S, ClusterTrial, Trouble
from tests.cluster.hosted_cluster import HostedCluster, ShimmedCluster, why_not
from tests.crash.ledger import Broken
from tests.crash.shim import COMPILER, WHY_NOT
from tests.crash.trial import SOAK_S
from tests.support.processes import NotReadyError

# Ids are remembered for longer than the troubles of a round take, and for less than a clock is
# wrong.
FLAGS: Final = (
    *("--cluster_patience", "2s", "--cluster_stranded", "600s", "--dedupe_window", "1h"),
)
# With the smaller one, what a follower gets at once is too long for the window: it is written past
# it, and a sync that fails is that of a write. The other one is copied less quickly.
WINDOWS: Final = (1 << 20, 16 << 20)
IN_A_ROW: Final = 3  # troubles between two judgements

TROUBLES: Final[dict[str, Trouble]] = {
    "a coordinator killed": troubles.kill_coordinator,
    "anyone killed": troubles.kill_anyone,
    "two coordinators killed": troubles.kill_two_in_a_row,
    "all killed": troubles.all_killed,
    "anyone stopped": troubles.anyone_stands_still,
    "a zombie": troubles.zombie,
    "anyone restarted": troubles.restart_anyone,
    "killed before the others have it": troubles.dies_after_numbering,
    "a clock that jumps": troubles.clock_jumps,
    "a restored store": troubles.restored_store,
    "etcd killed": troubles.etcd_killed,
    "etcd stopped": troubles.etcd_stopped,
}
OF_A_LARGE_WINDOW: Final[dict[str, Trouble]] = {
    "a sync fails": troubles.failed_sync_of_follower,
}
OF_A_NETWORK: Final[dict[str, Trouble]] = {
    "some reached": troubles.some_reached,
    "a full disk": troubles.full_disk_of_coordinator,
    **{f"cut: {name}": cut for name, cut in troubles.CUTS.items()},
}


class Nemesis(ClusterTrial):
    """Clients that may be refused something, as those of users are."""

    publisher_kinds = (Patient, Counting, Quitter)


def main(names: list[str]) -> int:
    """Run until the time is over; the exit status."""
    if COMPILER is None:
        print(WHY_NOT, file=sys.stderr)
        return 2
    seed = int(os.environ.get("CRASH_SEED", "0")) or SystemRandom().randrange(1, 1 << 32)
    window = Random(seed).choice(WINDOWS)
    known = TROUBLES | ({} if why_not() else OF_A_NETWORK)
    known |= OF_A_LARGE_WINDOW if window == max(WINDOWS) else {}
    if unknown := [name for name in names if name not in known]:
        print(f"{unknown[0]} is none of: {', '.join(known)}", file=sys.stderr)
        return 2
    kind = ShimmedCluster if why_not() else HostedCluster
    try:
        with kind(more=[*FLAGS, "--journal_window_bytes", str(window)]) as made:
            play(made, seed, names or list(known), known)
    except (Broken, NotReadyError, BaseExceptionGroup, TimeoutError) as error:
        print(f"BREACH, CRASH_SEED={seed}: {told(error)}", flush=True)
        return 1
    return 0


def play(cluster: ShimmedCluster, seed: int, names: list[str], known: dict[str, Trouble]) -> None:
    """Troubles and judgements, at least once."""
    chance, end, done, messages = Random(seed), time.monotonic() + SOAK_S, 0, 0
    while not done or time.monotonic() < end:
        chosen = chance.choices(names, k=IN_A_ROW)
        print(f"CRASH_SEED={seed}: after {done} troubles {', '.join(chosen)}", flush=True)
        trial = Nemesis(cluster, chance.randrange(1 << 32))
        trial.play([known[name] for name in chosen])
        done += len(chosen)
        messages += trial.ledger.last - trial.first + 1
    print(f"CRASH_SEED={seed}: no breach in {done} troubles and {messages} messages", flush=True)


def told(error: BaseException) -> str:
    """What happened first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"the cluster was not whole again, or published nothing, for {ROUND_S:g} s"
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
