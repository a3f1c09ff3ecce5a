#!/usr/bin/env bash
# A broker, messages, and what Spark makes of them, in a directory that is gone afterwards: `make
# spark-demo`. Any free port is taken. `seriatim` and `python` are those of the PATH. Fails with the
# first command that does.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
command -v seriatim >/dev/null || { echo 'demo.sh: no seriatim on the PATH; make spark-demo sets it' >&2; exit 1; }
place=$(mktemp -d -t seriatim-spark-XXXXXX)
cd "$place"
broker=

leave() {
    status=$?
    trap - EXIT INT TERM
    if [ -n "$broker" ]; then
        kill "$broker" 2>/dev/null || true
        wait "$broker" 2>/dev/null || true
    fi
    cd /
    rm -rf "$place"
    [ "$status" = 0 ] || echo "demo.sh: failed with status $status" >&2
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
run() {
    printf '\n%s$' "$bold"
    for word; do
        case $word in *[!A-Za-z0-9_.,:/=@+-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '%s\n' "$plain"
    "$@"
}

printf '%s$ seriatim serve --store_dir journal &%s\n' "$bold" "$plain"
seriatim serve -a 127.0.0.1 -p -1 --store_dir journal 2>broker.log &
broker=$!
port=
while [ -z "$port" ]; do
    kill -0 "$broker" 2>/dev/null || { cat broker.log >&2; exit 1; }
    # Read from a pipe that nothing comes through: a tenth of a second.
    read -r -t 0.1 <> <(:) || true
    port=$(sed -nE 's/.*Listening for client connections on .*:([0-9]+).*/\1/p' broker.log 2>/dev/null || true)
done
export SERIATIM_URL="nats://127.0.0.1:$port"
echo "on $SERIATIM_URL, which the commands below find in SERIATIM_URL"

run seriatim pub orders.eu '{"item": "tea", "count": 3}' --count 20000
run seriatim pub orders.us '{"item": "coffee", "count": 1}' --count 10000
run seriatim cardinal simulate --blocks 300 --updates 20 --forks 0.2 --producers 2 --seed 6 --schema chain.toml

run seriatim spark archive archive --subject 'orders.>' --once
run seriatim spark audit --archive archive --server "$SERIATIM_URL"
run seriatim spark stats --archive archive --depth 2
run seriatim spark cardinal chain tables --schema chain.toml --once
run python "$here/show.py" archive tables
printf '\nThat was all of it; docs/spark.md goes on from here.\n'
