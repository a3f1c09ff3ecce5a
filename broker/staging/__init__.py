"""Exactly-once publishing: staged and committed batches (docs/staging.md).

`staging_service` takes clients' requests (`operations_asked`) and answers them. Who judges,
promises and finishes is the core (sequencer/replica/batches). It runs in a member of a cluster, or
in `local_batches`, which is a cluster of one. `stage_files` keeps the stages for both: `stages` are
the files and their counters, `stage_rows` publishes the rows of one batch, `applications` knows
each one's last batch, and `shares` says how much each client may take. `row_scan` finds rows in
the journal after a start, and `older_stores` what another kind of broker has left.
"""
