#!/usr/bin/env bash
# All of it for devices: toolchain, builds, smoke runs, and the packages of what was
# built. For a fresh Debian 12 with Rust, as root; cross/toolchain.sh installs the
# cross compilers and qemu-user, the caller mosquitto.
#
# The program for aarch64 is the one that is shipped, whole, so that its size is that
# of a release; the one for armv7 is built without LTO, which saves minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$PATH:/usr/sbin command -v mosquitto >/dev/null || {
    echo "cross/ci.sh: mosquitto is needed: apt-get install mosquitto" >&2
    exit 2
}
step() { printf 'cross/ci.sh [%4ss] %s\n' "$SECONDS" "$*"; }

step "a release for aarch64"
cross/build.sh aarch64
step "armv7, without LTO"
cross/build.sh --quick armv7
for target in aarch64 armv7; do
    step "smoke run of $target"
    cross/smoke.sh $target
done
step "packages"
arm64=$(packages/build.sh arm64 target/cross/aarch64-unknown-linux-gnu/release/tidegate)
armhf=$(packages/build.sh armhf target/cross/armv7-unknown-linux-gnueabihf/release/tidegate)
packages/contents.sh "$arm64" "$armhf"
step "done"
