"""Streams: JetStream's API over the one journal.

consumer_config   what a request says of a consumer --> strict_json, api_errors, go_duration
stream_consumer   a consumer: events in, actions out, no I/O
  deliverer       what each message passes: numbers, ack subject, who gets it (compiled)
  pending_table   what is unacked (compiled)
  pull_requests   who waits (compiled)
  pace            window, rate, replay (compiled)
kept_consumer     its state, as notes have it
"""
