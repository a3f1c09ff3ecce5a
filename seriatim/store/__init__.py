"""Reads the store of a broker on this machine, without the broker: `seriatim.table` and `tail`.

    store_table     a range of its messages as columns
    tailing         its messages, from the past on and live

It stands on the sequencer's reader, which takes no lock and writes nothing: the broker does not
notice it. The words, the messages and the errors are those of the client.
"""
