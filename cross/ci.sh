#!/usr/bin/env bash
# All of it for devices: toolchain, both builds without LTO, the smoke runs, and the
# packages of what was built. Needs root for apt on a fresh Debian 12.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$PATH:/usr/sbin command -v mosquitto >/dev/null || {
    echo "cross/ci.sh: mosquitto is needed: apt-get install mosquitto" >&2
    exit 2
}
cross/build.sh --quick aarch64 armv7
cross/smoke.sh aarch64
cross/smoke.sh armv7
packages/build.sh arm64 target/cross/aarch64-unknown-linux-gnu/release/tidegate
packages/build.sh armhf target/cross/armv7-unknown-linux-gnueabihf/release/tidegate
