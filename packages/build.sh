#!/usr/bin/env bash
# Makes a Debian package of a program that is built already.
#
#   packages/build.sh ARCH PROGRAM [REVISION]
#   packages/build.sh arm64 target/cross/aarch64-unknown-linux-gnu/release/tidegate
#
# ARCH is amd64, arm64 or armhf; REVISION is that of the package, 1 if left out.
# The last line printed is the package: target/debian/tidegate_VERSION_ARCH.deb
set -euo pipefail
umask 022
stop() { printf 'packages/build.sh: %s\n' "$*" >&2; exit 2; }
[ $# -ge 2 ] || stop "usage: packages/build.sh ARCH PROGRAM [REVISION]"
arch=$1
program=$(realpath "$2")
revision=${3:-1}
cd "$(dirname "$0")/.."

# The program itself knows its commands: one for another machine is run by qemu.
case $arch in
    "$(dpkg --print-architecture)") run=("$program") ;;
    arm64) run=(qemu-aarch64-static -L /usr/aarch64-linux-gnu "$program") ;;
    armhf) run=(qemu-arm-static -L /usr/arm-linux-gnueabihf "$program") ;;
    *) stop "no way to run a program for $arch here" ;;
esac
stated=$("${run[@]}" --version)
version=${stated#tidegate }-$revision
maintainer="The Tidegate authors <tidegate@lists.invalid>"
# The same sources give the same bytes. A tree without its history has the day of
# its changelog.
epoch=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$epoch}

root=$PWD/target/debian/root-$arch
rm -rf "$root"
share=$root/usr/share
doc=$share/doc/tidegate
put() { install -D -m "$1" "$2" "$3"; } # MODE FILE PLACE
compressed() { mkdir -p "$(dirname "$1")" && gzip -9n >"$1"; } # PLACE, from stdin

put 755 "$program" "$root/usr/bin/tidegate"
put 644 systemd/tidegate.service "$root/usr/lib/systemd/system/tidegate.service"
put 644 packages/debian/sysusers.conf "$root/usr/lib/sysusers.d/tidegate.conf"
put 644 packages/tidegate.toml "$root/etc/tidegate/tidegate.toml"

completions() { mkdir -p "$(dirname "$2")" && "${run[@]}" completions "$1" >"$2"; } # SHELL PLACE
completions bash "$share/bash-completion/completions/tidegate"
completions zsh "$share/zsh/vendor-completions/_tidegate"
completions fish "$share/fish/vendor_completions.d/tidegate.fish"
mkdir -p "$share/man/man1"
"${run[@]}" man-pages "$share/man/man1"
gzip -9n "$share"/man/man1/*.1

put 644 packages/debian/copyright "$doc/copyright"
put 644 README.md "$doc/README.md"
for page in docs/*.md docs/openapi.json docs/page.png; do put 644 "$page" "$doc/docs/${page##*/}"; done
compressed "$doc/changelog.gz" <CHANGELOG.md
printf 'tidegate (%s) stable; urgency=medium\n\n  * What is new is in changelog.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | compressed "$doc/changelog.Debian.gz"
for sample in config/*.toml config/grafana/* config/prometheus/*; do put 644 "$sample" "$doc/examples/${sample##*/}"; done

control=$root/DEBIAN
mkdir "$control"
cat >"$control/control" <<CONTROL
Package: tidegate
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: libc6 (>= 2.36), libgcc-s1, systemd | systemd-standalone-sysusers
Recommends: chrony | time-daemon
Section: net
Priority: optional
Description: edge gateway agent for industrial readings
 Tidegate stands beside PLC and fieldbus readers, stamps each reading with UTC
 event time, clock quality and a durable sequence number, keeps readings on disk
 while the uplink is away, and forwards them over MQTT.
 .
 The power may fail at any time: what was acknowledged is on disk.
CONTROL
echo /etc/tidegate/tidegate.toml >"$control/conffiles"
for script in postinst prerm postrm; do put 755 "packages/debian/$script" "$control/$script"; done
(cd "$root" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"

find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
package=target/debian/tidegate_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
rm -rf "$root"
echo "$package"
