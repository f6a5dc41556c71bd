#!/usr/bin/env bash
# The whole job with a program for ARM, run by qemu-user beside a real Mosquitto:
# take readings, be killed, deliver, compute on site, tell the time, go past 2038.
#
#   cross/smoke.sh aarch64            after cross/build.sh aarch64; or armv7, static
#
# qemu-user says nothing about speed or memory on a device.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
    aarch64) triple=aarch64-unknown-linux-gnu prefix=aarch64-linux-gnu emulator=qemu-aarch64-static time64=() ;;
    armv7) triple=armv7-unknown-linux-gnueabihf prefix=arm-linux-gnueabihf emulator=qemu-arm-static
        time64=(-D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64) ;;
    # Nothing can be loaded before a static program: its own clock stays this machine's.
    static) triple=aarch64-unknown-linux-musl prefix= emulator=qemu-aarch64-static ;;
    *) echo "usage: cross/smoke.sh aarch64|armv7|static" >&2; exit 2 ;;
esac
program=target/cross/$triple/release/tidegate
[ -x "$program" ] || { echo "cross/smoke.sh: no $program: run cross/build.sh $1" >&2; exit 2; }
broker=$(PATH=$PATH:/usr/sbin command -v mosquitto) || { echo "cross/smoke.sh: mosquitto is needed" >&2; exit 2; }

qemu=("$emulator" ${prefix:+-L "/usr/$prefix"})
tidegate() { "${qemu[@]}" "$program" "$@"; }

work=$(mktemp -d)
agent='' mosquitto='' subscriber=''
finish() {
    for process in $agent $mosquitto $subscriber; do
        kill -KILL "$process" && wait "$process" || true
    done 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
say() { printf '%s [%3ss] %s\n' "$triple" "$SECONDS" "$*"; }
fail() {
    say "FAILED: $*" >&2
    tail -n 20 "$work"/*.log >&2 || true
    exit 1
}
must() { "$@" || fail "$*"; }
# Emulation on a busy machine is slow: what is to come is waited for, long.
wait_for() { # WHAT COMMAND...
    local what=$1 until=$((SECONDS + 180))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || fail "waited in vain: $what"
        [ -z "$agent" ] || kill -0 "$agent" 2>/dev/null || fail "the agent is gone; waited for: $what"
        sleep 0.2
    done
}
free_port() { # one that nobody listens at
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo $port
}

cat >"$work/mosquitto.conf" <<CONF
listener $(free_port | tee "$work/broker_port") 127.0.0.1
allow_anonymous true
CONF
broker_port=$(<"$work/broker_port")
feed_port=$(free_port)
config=$work/tidegate.toml
cat >"$config" <<CONF
[gateway]
id = "smoke"
data_dir = "$work/data"
[clock]
hold_unsynchronized = "0s"
[journal]
commit_interval = "50ms"
max_bytes = "64MiB"
segment_bytes = "64KiB"
[[uplink]]
url = "mqtt://127.0.0.1:$broker_port"
format = "postcard-batch"
reconnect_max = "1s"
[[source]]
name = "in"
type = "listen"
address = "127.0.0.1:$feed_port"
acknowledge = true
[[window]]
name = "w"
kind = "tumbling"
size = "10s"
bound = "0s"
[[output]]
type = "jsonl"
path = "$work/windows.jsonl"
[http]
listen = ""
CONF

start_agent() { # [NAME=VALUE of its environment]...
    local environment=()
    for one in "$@"; do environment+=(-E "$one"); done
    "${qemu[@]}" "${environment[@]}" "$program" run -c "$config" 2>>"$work/agent.log" &
    agent=$!
    wait_for "the agent answers" tidegate status -c "$config"
}
stop_agent() {
    kill -TERM $agent
    local code=0
    wait $agent || code=$?
    agent=''
    [ $code = 0 ] || fail "the agent ended with $code"
}
# Hands lines in and waits until the agent has them on its disk.
feed() { # COUNT, lines from stdin
    exec 3<>"/dev/tcp/127.0.0.1/$feed_port"
    cat >&3
    local answer=
    while [ "$answer" != "{\"acked\":$1}" ]; do
        read -r -t 180 answer <&3 || fail "no receipt for $1 lines"
    done
    exec 3>&-
}
# A second apart, from 2026-01-01T00:00:00Z on.
lines() { # FIRST LAST
    for n in $(seq "$1" "$2"); do
        printf '{"entity":"pump","property":"n","value":%s,"time":%s}\n' "$n" $((1767225600 + n))
    done
}

say "$(tidegate --version), $(stat -c %s "$program") bytes"
must tidegate check -c packages/tidegate.toml
must tidegate check -c "$config"
tidegate clock --json >"$work/clock.json" || fail "clock"
must grep -q '"kernel"' "$work/clock.json"
tidegate clock --check >/dev/null 2>"$work/clock.log" || [ $? = 1 ] || fail "clock --check"

# No broker, then no agent: the power fails.
start_agent
feed 600 < <(lines 1 600)
wait_for "a window" grep -q '"start":"2026-01-01T00:00:10.000000000Z"' "$work/windows.jsonl"
say "600 readings are on disk, windows are computed, without an uplink"
kill -KILL $agent
wait $agent 2>/dev/null || true
agent=''
must tidegate journal verify --journal "$work/data"
say "killed; the journal is whole"

"$broker" -v -c "$work/mosquitto.conf" >"$work/mosquitto.log" 2>&1 &
mosquitto=$!
wait_for "mosquitto" bash -c ": </dev/tcp/127.0.0.1/$broker_port"
"${qemu[@]}" "$program" decode --url "mqtt://127.0.0.1:$broker_port" --topic 'tidegate/smoke/#' \
    >"$work/received" 2>"$work/decode.log" &
subscriber=$!
wait_for "the subscription" grep -q 'Sending SUBACK' "$work/mosquitto.log"
start_agent
feed 100 < <(lines 601 700)
seen() { # COUNT of different readings of `in` at the consumer
    [ "$(grep -o '"source":"in","epoch":"[^"]*","seq":[0-9]*' "$work/received" | sort -u | wc -l)" = "$1" ]
}
wait_for "700 readings at the broker" seen 700
stop_agent
tidegate audit --journal "$work/data" --received "$work/received" --allow-repeats >"$work/audit.log" || fail "audit"
say "700 readings delivered, none twice under two names: $(head -1 "$work/audit.log")"

# Past the end of 32-bit time, in what devices say and on the gateway's own clock.
if [ -n "$prefix" ]; then
    "$prefix-gcc" -O1 -shared -fPIC "${time64[@]}" -o "$work/shim.so" tests/data/clock_shim.c -ldl
    end=$((2147483647 - 5 - $(date +%s)))
    printf '%s000000000\n' "$end" >"$work/shifted"
    start_agent "LD_PRELOAD=$work/shim.so" "CLOCK_SHIM_FILE=$work/shifted"
else
    start_agent
fi
feed 3 <<'LINES'
{"entity":"t","property":"v","value":1,"time":2147483647}
{"entity":"t","property":"v","value":2,"time":2147483648}
{"entity":"t","property":"v","value":3,"time":4102444800}
LINES
past() { # a reading that the agent stamped after 2038-01-19T03:14:08Z is at the consumer
    printf '{"entity":"own","property":"v","value":0}\n' | feed 1
    grep -q '"own".*"event_time":"2038-01-19T03:1[4-7]:[1-5]' "$work/received"
}
device_times() {
    for time in 2038-01-19T03:14:07.000000000Z 2038-01-19T03:14:08.000000000Z 2100-01-01T00:00:00.000000000Z; do
        grep -q "\"event_time\":\"$time\"" "$work/received" || return 1
    done
}
[ -z "$prefix" ] || wait_for "the year 2038" past
wait_for "what devices said of 2038 and 2100" device_times
stop_agent
# In the order of their numbers, what the gateway stamped on the way never goes back;
# and no number is left out.
sed -nE 's/.*"seq":([0-9]+),"entity":"own".*"event_time":"([^"]*)".*/\1 \2/p' "$work/received" |
    sort -n -u | cut -d' ' -f2 >"$work/own"
[ -z "$prefix" ] || must test -s "$work/own"
must sort --check "$work/own"
must tidegate audit --journal "$work/data" --received "$work/received" --allow-repeats >"$work/audit.log"
must tidegate journal verify --journal "$work/data"
say "2038 and 2100 are years like any other"
