#!/usr/bin/env bash
# Looks into packages, of any architecture, without installing them: is everything
# in its place, does nothing start, is the program one for that machine?
#
#   packages/contents.sh PACKAGE...
set -euo pipefail
stop() { printf 'packages/contents.sh: %s\n' "$*" >&2; exit 1; }
[ $# -gt 0 ] || { echo "usage: packages/contents.sh PACKAGE..." >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package in "$@"; do
    rm -rf "$work/root"
    dpkg-deb --raw-extract "$package" "$work/root"
    for file in \
        usr/bin/tidegate \
        usr/lib/systemd/system/tidegate.service \
        usr/lib/sysusers.d/tidegate.conf \
        etc/tidegate/tidegate.toml \
        usr/share/bash-completion/completions/tidegate \
        usr/share/zsh/vendor-completions/_tidegate \
        usr/share/fish/vendor_completions.d/tidegate.fish \
        usr/share/man/man1/tidegate.1.gz \
        usr/share/man/man1/tidegate-run.1.gz \
        usr/share/doc/tidegate/copyright \
        usr/share/doc/tidegate/examples/tidegate.toml; do
        [ -s "$work/root/$file" ] || stop "$package: no /$file, or an empty one"
    done
    [ "$(cat "$work/root/DEBIAN/conffiles")" = /etc/tidegate/tidegate.toml ] || stop "$package: conffiles"
    grep -q '^u tidegate ' "$work/root/usr/lib/sysusers.d/tidegate.conf" || stop "$package: no user tidegate"
    # Whoever installs has not yet said which broker: starting is up to them.
    for script in postinst prerm postrm; do
        [ -x "$work/root/DEBIAN/$script" ] || stop "$package: no $script"
        ! grep -nE 'systemctl (re)?start|systemctl enable|invoke-rc.d|deb-systemd-invoke' "$work/root/DEBIAN/$script" ||
            stop "$package: its $script starts the agent"
    done
    [ -z "$(find "$work/root" -path '*.wants*')" ] || stop "$package: it enables the agent"

    # The machine that the first bytes of the program name (ELF, e_machine).
    machine=$(od -An -tu2 -j18 -N2 "$work/root/usr/bin/tidegate" | tr -d ' ')
    case $(dpkg-deb --field "$package" Architecture) in
        amd64) expected=62 ;;
        arm64) expected=183 ;;
        armhf) expected=40 ;;
        *) stop "$package: of an unknown architecture" ;;
    esac
    [ "$machine" = $expected ] || stop "$package: a program for ELF machine $machine, not $expected"
    printf 'packages/contents.sh: %s, %s bytes, is complete\n' "$package" "$(stat -c %s "$package")"
done
