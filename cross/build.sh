#!/usr/bin/env bash
# Builds what goes to ARM devices, on Debian 12 (amd64) without Docker.
#
#   cross/build.sh aarch64            or armv7, or several
#   cross/build.sh static             for aarch64, with musl: for containers (not tried yet)
#   cross/build.sh --quick armv7      without LTO, for tests; larger and slower
#
# The program: target/cross/TRIPLE/release/tidegate. One that is over 12 MiB is an
# error, but for --quick: a gateway's flash and its updates over a phone line are small.
set -euo pipefail
cd "$(dirname "$0")/.."

bytes_max=$((12 * 1024 * 1024))
usage() { echo "usage: cross/build.sh [--quick] aarch64|armv7|static..." >&2; exit 2; }

quick='' static=''
targets=()
for word in "$@"; do
    case $word in
        --quick) quick=yes ;;
        aarch64) targets+=(aarch64-unknown-linux-gnu) ;;
        armv7) targets+=(armv7-unknown-linux-gnueabihf) ;;
        static) static=--static targets+=(aarch64-unknown-linux-musl) ;;
        *) usage ;;
    esac
done
[ ${#targets[@]} -gt 0 ] || usage

cross/toolchain.sh $static

# Debian raises the least glibc with every release: Raspberry Pi OS bookworm has this.
glibc_max=2.36

# A folder of its own: another rustc would rebuild all that the host's has built.
export CARGO_TARGET_DIR=$PWD/target/cross
export RUSTC=$PWD/target/cross-toolchain/bin/rustc RUSTDOC=$PWD/target/cross-toolchain/bin/rustdoc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER=arm-linux-gnueabihf-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
export CC_armv7_unknown_linux_gnueabihf=arm-linux-gnueabihf-gcc AR_armv7_unknown_linux_gnueabihf=arm-linux-gnueabihf-ar
# The time zones of the world are tables of pointers, each with 24 bytes about it for
# the loader: packed it is a bit. glibc 2.36 knows how; Debian's ld for ARM does not.
packed="-Clink-arg=-fuse-ld=lld -Clink-arg=-B$PWD/target/cross-toolchain/lld"
packed+=" -Clink-arg=-Wl,-z,pack-relative-relocs"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS=$packed
if [ -n "$quick" ]; then
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
fi

build() { # COMMAND TARGET [WORD...]
    local command=$1 target=$2 verb=build
    [ "$command" = cargo ] || verb=zigbuild
    shift 2
    "$command" "$verb" --release --locked --no-default-features --bin tidegate --target "$target" \
        ${CARGO_JOBS:+-j"$CARGO_JOBS"} "$@"
}
# Debian has no standard library for musl: it is built along, from its sources.
build_static() {
    PATH=$PWD/target/cross-toolchain/zig/bin:$PATH RUSTC_BOOTSTRAP=1 \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=-Clink-self-contained=no \
        build cargo-zigbuild "$1" -Zbuild-std=std,panic_unwind
}
glibc_needed() { # PROGRAM
    local tool=aarch64-linux-gnu-objdump
    [[ $1 != *armv7* ]] || tool=arm-linux-gnueabihf-objdump
    {
        "$tool" -T "$1" | grep -oE 'GLIBC_[0-9.]+'
        ! "$tool" -p "$1" | grep -q GLIBC_ABI_DT_RELR || echo GLIBC_2.36
    } | sort -uV | tail -1
}

for target in "${targets[@]}"; do
    program=$CARGO_TARGET_DIR/$target/release/tidegate
    case $target in
        *-musl)
            build_static "$target"
            # Whatever it asks for at its start, an empty image does not have.
            ! aarch64-linux-gnu-readelf -ld "$program" | grep -E 'INTERP|NEEDED' || {
                echo "$program is not static" >&2
                exit 1
            }
            needs="nothing but Linux"
            ;;
        *)
            build cargo "$target"
            needs=$(glibc_needed "$program")
            newest=$(printf '%s\nGLIBC_%s\n' "$needs" "$glibc_max" | sort -V | tail -1)
            [ "$newest" = "GLIBC_$glibc_max" ] || {
                echo "$program needs $needs: it would not start where glibc $glibc_max is the newest" >&2
                exit 1
            }
            ;;
    esac
    bytes=$(stat -c %s "$program")
    printf '%s: %s bytes, needs %s\n' "$program" "$bytes" "$needs"
    [ -n "$quick" ] || [ "$bytes" -le "$bytes_max" ] || {
        echo "$program is over $bytes_max bytes: see \"Size\" in cross/README.md" >&2
        exit 1
    }
done
