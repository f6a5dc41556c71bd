#!/usr/bin/env bash
# Builds what goes to ARM devices, on Debian 12 (amd64) without Docker.
#
#   cross/build.sh aarch64            or armv7, or both; --quick: without LTO, for tests
#   cross/build.sh --quick aarch64 armv7
#
# The program: target/cross/TRIPLE/release/tidegate
set -euo pipefail
cd "$(dirname "$0")/.."

quick=
targets=()
for word in "$@"; do
    case $word in
        --quick) quick=yes ;;
        aarch64) targets+=(aarch64-unknown-linux-gnu) ;;
        armv7) targets+=(armv7-unknown-linux-gnueabihf) ;;
        *) echo "usage: cross/build.sh [--quick] aarch64|armv7..." >&2; exit 2 ;;
    esac
done
[ ${#targets[@]} -gt 0 ] || { echo "usage: cross/build.sh [--quick] aarch64|armv7..." >&2; exit 2; }

cross/toolchain.sh

# Debian raises the least glibc with every release: Raspberry Pi OS bookworm has 2.36.
glibc_max=2.34

# A folder of its own: another rustc would rebuild all that the host's has built.
export CARGO_TARGET_DIR=$PWD/target/cross
export RUSTC=$PWD/target/cross-toolchain/bin/rustc RUSTDOC=$PWD/target/cross-toolchain/bin/rustdoc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER=arm-linux-gnueabihf-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
export CC_armv7_unknown_linux_gnueabihf=arm-linux-gnueabihf-gcc AR_armv7_unknown_linux_gnueabihf=arm-linux-gnueabihf-ar
if [ -n "$quick" ]; then
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
fi

for target in "${targets[@]}"; do
    cargo build --release --locked --no-default-features --bin tidegate --target "$target" ${CARGO_JOBS:+-j"$CARGO_JOBS"}
    program=$CARGO_TARGET_DIR/$target/release/tidegate
    glibc=$(${target%%-*}-linux-gnu-objdump -T "$program" 2>/dev/null || arm-linux-gnueabihf-objdump -T "$program")
    glibc=$(grep -oE 'GLIBC_[0-9.]+' <<<"$glibc" | sort -uV | tail -1)
    printf '%s: %s bytes, needs %s\n' "$program" "$(stat -c %s "$program")" "$glibc"
    newest=$(printf '%s\nGLIBC_%s\n' "$glibc" "$glibc_max" | sort -V | tail -1)
    [ "$newest" = "GLIBC_$glibc_max" ] || { echo "it would not start where glibc $glibc_max is the newest" >&2; exit 1; }
done
