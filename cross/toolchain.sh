#!/usr/bin/env bash
# Gets what cross/build.sh needs on Debian 12 (amd64), without Docker and without
# touching the Rust that is installed: Debian's cross gcc and qemu-user by apt, and
# into target/cross-toolchain, by `dpkg -x`, a private rustc of Debian with the ARM
# standard libraries of the same version. cargo stays the one on the PATH.
#
#   cross/toolchain.sh             needs root where packages of apt are missing
#   cross/toolchain.sh --static    for the static program besides: the sources of the
#                                  standard library, which Debian has not built for
#                                  musl, and zig by pip as its C compiler and linker
#
# A second run with everything in place takes under a second.
set -euo pipefail
cd "$(dirname "$0")/.."

ROOT=$PWD/target/cross-toolchain
STAMP=$ROOT/version
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
# The mirror that this machine's apt uses anyway.
MIRROR=${MIRROR:-$(apt-get indextargets --format '$(SITE)' | grep -m1 '/debian$' | sed 's|/debian$||' || true)}

# Tried together; zig says which musl, cargo-zigbuild which of rustc's words it takes.
ZIG=0.15.2 CARGO_ZIGBUILD=0.24.1

say() { printf 'toolchain: %s\n' "$*"; }
stop() { printf 'toolchain: %s\n' "$*" >&2; exit 1; }

[ "$(dpkg --print-architecture)" = amd64 ] || stop "this recipe is for amd64; on an ARM machine plain \`cargo build\` does it"

# libedit, libxml, libz3 and libffi are what the private rustc is linked with.
missing=()
for package in gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf \
    libc6-dev-armhf-cross lld-16 qemu-user-static libedit2 libxml2 libz3-4 libffi8; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "apt-get install ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update || true # one index that fails does not matter here
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# One apt root for each architecture: no foreign architecture is added to the
# machine's own dpkg, and an index that cannot be read costs that one only.
apt_root() { # ARCH
    local root=$ROOT/apt/$1
    mkdir -p "$root"/etc/apt/{apt.conf.d,preferences.d,sources.list.d} "$root"/var/lib/dpkg \
        "$root"/var/lib/apt/lists/partial "$root"/var/cache/apt/archives/partial
    : >"$root/var/lib/dpkg/status"
    cat >"$root/apt.conf" <<CONF
Dir "$root";
Dir::State::status "$root/var/lib/dpkg/status";
APT::Architecture "$1";
APT::Architectures { "$1"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
    {
        echo "deb [signed-by=$KEYRING] $MIRROR/debian bookworm main"
        echo "deb [signed-by=$KEYRING] $MIRROR/debian-security bookworm-security main"
        # A standard library for another machine holds nothing of this one: that of
        # the next release serves as well, if it is of the same version.
        [ "$1" = amd64 ] || echo "deb [signed-by=$KEYRING] $MIRROR/debian trixie main"
    } >"$root/etc/apt/sources.list"
    APT_CONFIG=$root/apt.conf apt-get -qq update 2>"$root/update.log" || say "index of $1 is incomplete, going on"
}
versions() { APT_CONFIG=$ROOT/apt/$1/apt.conf apt-cache madison "$2" | awk '{print $3}' | sort -uVr; } # ARCH PACKAGE
upstream() { sed -E 's/^([0-9]+\.[0-9]+\.[0-9]+).*/\1/' | sort -uVr; }
newest() { versions "$1" "$2" | grep -F -m1 "$RUST+" || true; } # ARCH PACKAGE
unpack() { # ARCH PACKAGE=VERSION
    (cd "$ROOT/debs" && APT_CONFIG=$ROOT/apt/$1/apt.conf apt-get -qq download "$2" && dpkg -x ./*.deb "$ROOT" && rm ./*.deb)
}

if [ ! -e "$STAMP" ]; then
    [ -n "$MIRROR" ] || stop "no Debian mirror in the apt sources: say MIRROR=http://HOST"
    rm -rf "$ROOT"
    mkdir -p "$ROOT/debs"
    for arch in amd64 arm64 armhf; do apt_root $arch; done
    # rustc takes a standard library of exactly its own version: the newest that all have.
    RUST=$(comm -12 <(versions amd64 rustc-web | upstream | sort) \
        <(comm -12 <(versions arm64 libstd-rust-web-dev | upstream | sort) \
            <(versions armhf libstd-rust-web-dev | upstream | sort)) | sort -V | tail -1)
    [ -n "$RUST" ] || stop "the mirror has no rustc-web that is the same for amd64, arm64 and armhf"
    host=$(newest amd64 rustc-web)
    runtime=libstd-rust-web-${RUST%.*}
    llvm=$(APT_CONFIG=$ROOT/apt/amd64/apt.conf apt-cache show "$runtime=$host" | grep -oE 'libllvm[0-9]+' | sed -n 1p)
    say "rustc-web $host with $llvm"
    for package in "rustc-web=$host" "$runtime=$host" "libstd-rust-web-dev=$host" "$llvm"; do unpack amd64 "$package"; done
    unpack arm64 "libstd-rust-web-dev=$(newest arm64 libstd-rust-web-dev)"
    unpack armhf "libstd-rust-web-dev=$(newest armhf libstd-rust-web-dev)"
    mkdir -p "$ROOT/bin"
    for tool in rustc rustdoc; do
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$ROOT/usr/lib/x86_64-linux-gnu" "$ROOT/usr/bin/$tool" >"$ROOT/bin/$tool"
        chmod 755 "$ROOT/bin/$tool"
    done
    rm -rf "$ROOT/debs" "$ROOT/apt" "$ROOT/usr/share/doc" "$ROOT/usr/share/man"
    "$ROOT/bin/rustc" --version >"$STAMP"
fi

# gcc asks for a linker by this name.
mkdir -p "$ROOT/lld"
ln -sf /usr/bin/ld.lld-16 "$ROOT/lld/ld.lld"

sources=$ROOT/usr/lib/rustlib/src/rust/library/Cargo.toml
if [ "${1:-}" = --static ] && [ ! -e "$sources" ]; then
    mkdir -p "$ROOT/debs"
    apt_root amd64
    RUST=$(cut -d' ' -f2 "$STAMP")
    unpack amd64 "rust-web-src=$(newest amd64 rust-web-src)"
    rm -rf "$ROOT/debs" "$ROOT/apt"
    [ -e "$sources" ] || stop "rust-web-src $RUST has no standard library where it was looked for: $sources"
fi
if [ "${1:-}" = --static ] && [ ! -x "$ROOT/zig/bin/cargo-zigbuild" ]; then
    python3 -m venv "$ROOT/zig" || stop "python3-venv is needed: apt-get install python3-venv"
    "$ROOT/zig/bin/pip" -q install "ziglang==$ZIG" "cargo-zigbuild==$CARGO_ZIGBUILD"
fi
say "$(cat "$STAMP")"
