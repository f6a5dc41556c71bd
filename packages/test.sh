#!/usr/bin/env bash
# Installs, upgrades, removes and purges the package of this machine's architecture
# in a throw-away root; nothing outside it is touched.
#
#   packages/test.sh [PROGRAM]        target/release/tidegate if left out
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-target/release/tidegate}
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
fail() { printf 'packages/test.sh: %s\n' "$*" >&2; exit 1; }
must() { "$@" || fail "failed: $*"; }
must_not() { ! "$@" || fail "holds, and must not: $*"; }

old=$(packages/build.sh "$arch" "$program" 1)
new=$(packages/build.sh "$arch" "$program" 2)
must packages/contents.sh "$old" "$new"

mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root/etc"
touch "$root"/var/lib/dpkg/{status,available}
# What the package depends on is this machine's.
in_root() {
    dpkg --root="$root" --force-script-chrootless --force-depends --force-confold \
        --log="$work/dpkg.log" "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2; fail "dpkg $*"; }
}
journal=$root/var/lib/tidegate
config=$root/etc/tidegate/tidegate.toml

# It comes: everything in its place, and nothing starts.
in_root --install "$old"
must grep -q '^tidegate:' "$root/etc/passwd"
must_not grep -q '^tidegate:' /etc/passwd
must "$root/usr/bin/tidegate" check -c "$config"
must test -s "$root/usr/share/bash-completion/completions/tidegate"
must test -s "$root/usr/share/man/man1/tidegate-status.1.gz"
must grep -q 'ExecStart=/usr/bin/tidegate run' "$root/usr/lib/systemd/system/tidegate.service"
must_not test -e "$root/etc/systemd/system/multi-user.target.wants/tidegate.service"
must_not test -e "$journal"

# A journal with readings that no broker has, made by the installed program.
mkdir -p "$journal"
cat >"$work/offline.toml" <<CONFIG
[gateway]
id = "gw-1"
data_dir = "$journal"
[[uplink]]
url = "mqtt://127.0.0.1:9"
[[source]]
name = "in"
type = "stdin"
[http]
listen = ""
CONFIG
values() { "$root/usr/bin/tidegate" journal export -c "$work/offline.toml" | grep -o '"value":[0-9]*' | cut -d: -f2 | sort -n | tr '\n' ' '; }
# Hands FIRST to LAST in and stops the agent when 1 to LAST are on its disk.
feed() { # FIRST LAST
    for n in $(seq "$1" "$2"); do
        printf '{"entity":"pump","property":"n","value":%s}\n' "$n"
    done >"$work/lines"
    "$root/usr/bin/tidegate" run -c "$work/offline.toml" <"$work/lines" 2>>"$work/agent.log" &
    local agent=$! until=$((SECONDS + 60))
    until [ "$(values 2>/dev/null)" = "$(seq -s ' ' 1 "$2") " ]; do
        [ $SECONDS -lt $until ] || { kill -KILL $agent; cat "$work/agent.log" >&2; fail "readings up to $2 are not on disk"; }
        sleep 0.2
    done
    kill -TERM $agent
    wait $agent || fail "the agent ended with $?"
}
feed 1 100
must test "$(values)" = "$(seq -s ' ' 1 100) "
echo '# mine' >>"$config"

# It is upgraded: journal, configuration and numbering go on.
in_root --install "$new"
must grep -q '^Version: .*-2$' <(dpkg --root="$root" --status tidegate)
must grep -q '^# mine' "$config"
must test "$(values)" = "$(seq -s ' ' 1 100) "
feed 101 150
must test "$(values)" = "$(seq -s ' ' 1 150) "
must "$root/usr/bin/tidegate" journal verify -c "$work/offline.toml" >"$work/verified"

# It goes: the journal stays, until purge.
in_root --remove tidegate
must_not test -e "$root/usr/bin/tidegate"
must test -e "$journal" -a -e "$config"
in_root --purge tidegate
must_not test -e "$journal"
must_not test -e "$root/etc/tidegate"

if command -v lintian >/dev/null; then
    must lintian --allow-root --fail-on error,warning --suppress-tags-from-file packages/debian/lintian-accepted "$new"
else
    echo "packages/test.sh: lintian is not installed, so it was not asked"
fi
echo "packages/test.sh: $new installs, upgrades, removes and purges"
