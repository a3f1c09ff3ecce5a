#!/bin/sh
# Run the tests of an installed broker, in a container that is built: run_tests.sh PYTHON [TEST...]
# The working directory has tests/ and pyproject.toml, and none of the sources: what is tested is what
# PYTHON has installed. Left out is what asks for more than a build has: multicast and IPv6, Spark and
# Java, node, PostgreSQL, the rights to make networks, and the documents and sources that some tests read.
set -eu
python=$1
shift
if [ $# -eq 0 ]; then
    set -- tests/parser tests/sublist tests/sequencer tests/order tests/wire tests/clients \
        tests/broker/dataplane/test_plane*.py tests/broker/replay/test_replays*.py tests/broker/test_server*.py \
        tests/seriatim/cli/pubsub/test_pub_sub.py tests/seriatim/cli/pubsub/test_sub_start.py
fi
for glob in '*feed*' '*receiver*' '*multicast*' '*_docs.py' '*npm*' '*test_table.py' '*test_stream_calls.py' \
    '*test_journal_format.py' '*test_journal_crc.py' '*tests/examples*'; do
    set -- "$@" --ignore-glob "$glob"
done
exec "$python" -m pytest -q --numprocesses 3 --dist loadfile -p no:cacheprovider "$@"
