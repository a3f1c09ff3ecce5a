#!/bin/sh
# Build the image and prove it: ENGINE=podman deploy/docker/prove.sh [ARGUMENTS of build]
set -eu
engine=${ENGINE:-docker}
image=seriatim:proof
name=seriatim-proof-$$
tree=$(cd "$(dirname "$0")/../.." && pwd)

fail() {
    echo "prove.sh: $*" >&2
    exit 1
}
trap '"$engine" rm --force "$name" >/dev/null 2>&1 || true
      "$engine" volume rm --force "$name" >/dev/null 2>&1 || true' EXIT

# podman's own format has no place for a HEALTHCHECK.
BUILDAH_FORMAT=docker "$engine" build --tag "$image" "$@" "$tree"

"$engine" run --rm --entrypoint /bin/sh "$image" -c \
    'test "$(id -u)" = 65532 && ! command -v gcc && ! command -v pip && ! command -v pip3' ||
    fail 'the image runs as another user, or holds a compiler or pip'

# The same container twice on one volume: the second start finds what the first has kept.
"$engine" create --name "$name" --read-only --volume "$name:/var/lib/seriatim" "$image" >/dev/null
for number in 1 2; do
    "$engine" start "$name" >/dev/null
    tries=60
    until "$engine" exec "$name" /usr/bin/python3 -IS /opt/seriatim/healthcheck.py 8222; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "not healthy: $("$engine" logs "$name" 2>&1)"
        sleep 1
    done
    published=$("$engine" exec "$name" seriatim pub --ack orders hello)
    [ "$published" = "$number" ] || fail "the number is $published and not $number"
    "$engine" stop "$name" >/dev/null
    status=$("$engine" inspect --format '{{.State.ExitCode}}' "$name")
    [ "$status" = 0 ] || fail "SIGTERM ended it with status $status"
done
if "$engine" logs "$name" 2>&1 | grep Traceback; then fail 'the log holds a traceback'; fi
echo PROVEN
