"""Streams: JetStream's API over the one journal.

stream_service    what the server starts and stops
  stream_api      requests to `$JS.API.`, and their answers --> infos, direct (single messages)
  streams         all streams: notes of them, changes, the ledgers after a start
    stream_view   one stream --> its ledger (broker/dataplane/ledger), stream_config
    journal_scan  reads a range of the journal again
publishing        judges messages that are guarded by headers
advisories        tells those that listen what happens to streams and consumers
no_streams        refuses requests where there can be no streams

consumers         all consumers: moves the state machines, carries out their actions, notes states
  consumer_reader reads records for one, and writes its deliveries
consumer_config   what a request says of a consumer --> strict_json, api_errors, go_duration
stream_consumer   a consumer: events in, actions out, no I/O
  deliverer       what each message passes: numbers, ack subject, who gets it (compiled)
  pending_table   what is unacked (compiled)
  pull_requests   who waits (compiled)
  pace            window, rate, replay (compiled)
kept_consumer     its state, as notes have it
"""
