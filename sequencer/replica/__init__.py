"""Replication: how the members of a cluster keep one order when machines die.

No sockets, clocks or files here. A driver (broker/cluster; the simulation in tests/replica) sets
the time, calls `Member` with what happened, and carries out the actions that it asks for.

    Member ----------- the state, and the two roles that act on it      member, member_state
      CoordinatorRole  numbers, replicates, commits                     coordinator_role, _state
        InSync ------- who must have a number; who goes, who comes      in_sync
        BatchCommits - promises, and the rows they publish              batches/
        GroupCounts -- how many takers each member has                  group_counts
      FollowerRole --- one connection to the coordinator                follower_role
      NoteState ------ what the second log says, in both roles          notes/
      Numbering ------ which message gets which number                  numbering, forward_table
    member_messages, member_wire: the members' messages, and their bytes

There are two logs. The journal has the messages. The second log has notes: what batches have
promised, and how many takers queue groups have. Both are replicated and committed in the same way.

These must hold, whatever dies, stops, or is cut off (tests/replica/checker.py checks them):

    I1 one order     for every number one record, whichever member shows it
    I2 uniform       what one member has shown, all later coordinators have
    I3 log matching  two logs with the same (epoch, number) are the same up to there
    I4 required      committed means: in the journal of each member of the engine's current view
    I5 one writer    no two processes write records of one epoch
    I6 kept          a coordinator's log only grows; a member cuts only above its own watermark
    I7 exactly once  each (origin, sequence of the origin) has at most one number

The rules that keep them. In brackets: the invariant, and the defect in tests/replica that breaks
the rule and is caught.

Rule 1  The view changes by compare-and-swap of its revision alone, and only a member of it does so.
        [I4, I5: "swap without compare", "takes over without the engine"]
Rule 2  Leases and clocks decide nothing. Members watch each other by pulses on connections.
        Silence, or a machine that refuses connections, proves nothing either, however soon it is
        acted on: it only lets a member propose. What is removed counts until the engine has said
        so (rule 4), and comes back as any joiner (rule 13), also if its process never died.
        [I2: "a follower's clock never goes back", "ages are measured by the time of day"; I4: "who
        refuses connections does not count"]
Rule 3  The fate of a swap may be unknown: conclude nothing from silence, but ask again until the
        revision has moved. After a restore, etcd reissues revisions, so a remembered revision
        proves nothing: no process proposes to take over before etcd has answered it.
        [I4: "proposes before the engine has answered"]
Rule 4  Committing counts all members that may be in the view: those of the last known view, of all
        swaps proposed on its revision, and the one that is joining. So a removed member counts
        until etcd has said that it is removed, and a joiner counts before it is proposed.
        [I4: "who is to go does not count before the swap", "deliver before all have it"]
Rule 5  The view never shrinks below `min_in_sync`. A dead member that cannot be removed stays in
        it, and publishing waits, until it returns, or until a learner that has caught up takes
        its place, both in one swap. [I2: "the view shrinks below min_in_sync"]
Rule 6  A view may arrive by any path; the highest epoch wins, and of that the highest revision.
        [I5: "views are ordered by revision alone"]
Rule 7  An epoch is written down before anything is said in it. From then on no older coordinator
        is heard or answered. [I5: "epoch not on the disk", "no fencing by epoch",
        "a restarted process goes on with its epoch"]
Rule 8  Collect before assign. The log of a member of the view has every committed number. A new
        coordinator keeps all of it, also what is above its watermark, and sends it to the others as
        it is. New numbers come after its end, and never after its watermark: others may know a
        higher one. [I1, I6: "no collect before assign", "a batch is begun again"]
Rule 9  Same bytes. All members have the same journal id, salt and records, CRC included: the
        coordinator seals a record once, a follower checks it and appends it. A record of another
        epoch begins a new segment. [I1, I3: checked in every run, byte by byte]
Rule 10 What the coordinator does not have is cut, from both logs, and that is synced, before the
        first ACK. Until then nothing more is heard from it, and no epoch is begun: a crash would
        bring the cut notes back. Own records that were cut are forwarded again. [I3, I6, I7: "cut
        to the coordinator's watermark", "logs compared by number alone", "cut records are not
        forwarded again", "notes are cut in memory alone"]
Rule 11 Acknowledged is on the disk: a record is written, or with `sync = always` synced. A note is
        synced in any case: it waits in the process, so even a kill would take it. The
        coordinator's own disk counts like any other. An ACK counts in its epoch only, and on its
        connection. [I4: "acknowledged before it is synced", "notes are acknowledged before they
        are synced", "an old connection is read on"]
Rule 12 A member that may have lost what it acknowledged is another one: it draws a new id, and
        comes as a learner. The old id stays in the view like any dead member.
        [I4: "a member that lost its tail keeps its place", "a copy of the past keeps its id",
        "a member may have less than it acknowledged"]
Rule 13 A joiner has everything before it counts as one that has: (1) it was close to the head for
        some time: it is joining, nothing is committed without it; (2) it has all that may be
        committed: it is proposed; (3) it is in the view. One that is silent in (1) is forgotten;
        once proposed it counts until the revision moves. In (2), this coordinator's watermark
        alone does not say what was committed: others may know a higher one. All of that is at or
        below the log's end when the epoch began.
        [I4: "a joiner does not count before the swap", "a joiner is measured by the watermark
        alone"]
Rule 14 Look first, then send again. A member that was cut off does not know which of its messages
        the coordinator took. Those are in its log up to `base`, and no others ever will be. So
        nothing is forwarded before the log reaches `base`; then the messages still without a
        number are sent. The coordinator keeps no table of duplicates. [I7: "forward before the
        base is here", "forwards deduplicated by a window", "the base is the log's end"]
Rule 15 Messages published before a subscription are not new to it. A member learns late what is
        committed, so a subscription begins after all that is known here to be published
        (`Member.published`). A member that is connected to no coordinator does not know that:
        there it begins when the member has all that the coordinator had (`Begin`). Otherwise a
        client that moves here would get again what another member, or an earlier process, has
        shown it. [nothing twice to a subscriber: "a subscription begins after what is delivered",
        "what is published is known without a coordinator", "a subscription begins after what was
        cut"]

Uniform delivery follows from rule 4: what is above the watermark is shown to no client, neither
subscriber nor publisher ["deliver when it comes", "a duplicate is answered at once"]. A note takes
effect before the numbers it governs (`NoteState.advance_commit`) ["numbers are committed before
their weights", "a watermark is known without its notes"].
"""
