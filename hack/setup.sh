#!/usr/bin/env bash
# Installs what a fresh Debian 12 needs to build and to test Foreshard: Debian packages, the Rust toolchain that
# rust-toolchain.toml pins, and a Go that can build testbed/kube. What is there is left alone; when all is there,
# this takes a fraction of a second.
#
# Everything comes from where this machine takes packages from: the Debian mirror of its own apt sources. Rust: the
# rustup of a newer Debian fetches the toolchain. Go: the one of a newer Debian. Both go to /usr/local/lib/foreshard,
# with links in /usr/local/bin; a Rust or Go of your own that is new enough is used instead.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

toolchains=/usr/local/lib/foreshard
links=/usr/local/bin
# Where rustup and Go are often found without being in PATH. The Makefile does the same.
PATH=$PATH:${HOME:-/root}/.cargo/bin:/usr/local/go/bin

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
need_root() { [ "$(id -u)" = 0 ] || fail "$1 Run \`make setup\` as root."; }

# Packages, each with a program or file that shows it is there when it came from elsewhere (Docker has its own
# containerd, for example).
packages="
build-essential:cc
ca-certificates:/etc/ssl/certs/ca-certificates.crt
conntrack:conntrack
containerd:containerd
containernetworking-plugins:/usr/lib/cni/bridge
curl:curl
ethtool:ethtool
git:git
iproute2:ip
iptables:iptables
make:make
mmdebstrap:mmdebstrap
musl-tools:musl-gcc
openssl:openssl
procps:ps
runc:runc
socat:socat
util-linux:nsenter
"

shown() { case $1 in /*) [ -e "$1" ] ;; *) have "$1" ;; esac; }

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$log" 2>&1
}

install_packages() {
    local line missing=()
    for line in $packages; do
        shown "${line#*:}" || missing+=("${line%%:*}")
    done
    [ ${#missing[@]} = 0 ] && return
    have apt-get || fail "these programs' packages are missing, and this is no Debian: ${missing[*]}"
    need_root "These packages are missing: ${missing[*]}."
    say "installing ${missing[*]}"
    log=$(mktemp)
    # A fresh machine has no package lists; a stale one has lists of packages that are gone.
    if ! apt_install "${missing[@]}"; then
        apt-get update -q >"$log" 2>&1 || { cat "$log" >&2; fail "apt-get update failed"; }
        apt_install "${missing[@]}" || { cat "$log" >&2; fail "could not install ${missing[*]}"; }
    fi
    rm -f "$log"
}

# The archive that this machine takes its own release from; security and vendors' archives have other suites.
mirror() {
    local codename
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
        awk -v release="$codename" '$2 == release && $3 == "main" { print $1; exit }'
}

# The files of packages of another Debian release, with all they need, in a folder of their own. Nothing of them is run.
extract() {
    local suite=$1 include=$2 folder=$3 from
    from=$(mirror)
    [ -n "$from" ] || fail "apt's sources name no mirror for this release of Debian"
    log=$(mktemp)
    rm -rf "$folder"
    mkdir -p "$(dirname "$folder")"
    # Mirrors may be snapshots from the past.
    mmdebstrap --variant=extract --format=directory --include="$include" \
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
        --aptopt='Acquire::Check-Valid-Until "false"' "$suite" "$folder" "$from" >"$log" 2>&1 ||
        { cat "$log" >&2; rm -rf "$folder"; return 1; }
    rm -f "$log"
}

# Links programs, but never over something that is not ours.
link() {
    local program name there
    for program in "$@"; do
        name=$links/$(basename "$program")
        there=$(readlink "$name" 2>/dev/null || true)
        if [ -e "$name" ] && [[ $there != "$toolchains"/* ]]; then
            fail "$name exists and was not made by this script: remove it or update it yourself"
        fi
        ln -sfn "$program" "$name"
    done
    hash -r
}

toml_list() { sed -n "s/^$1 *= *\[\(.*\)\]/\1/p" rust-toolchain.toml | tr -d '" ' | tr ',' ' '; }
channel=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
components=$(toml_list components)
targets=$(toml_list targets)

# Whether the pinned toolchain is there with all its parts.
rust_is_there() {
    local version sysroot part
    # With rustup, asking must not begin a download.
    version=$(RUSTUP_AUTO_INSTALL=0 cargo --version 2>/dev/null) || return 1
    [[ $version == "cargo $channel "* ]] || return 1
    sysroot=$(RUSTUP_AUTO_INSTALL=0 rustc --print sysroot 2>/dev/null) || return 1
    for part in $targets; do [ -d "$sysroot/lib/rustlib/$part/lib" ] || return 1; done
    for part in $components; do
        case $part in clippy) part=cargo-clippy ;; rustfmt) ;; *) continue ;; esac
        [ -x "$sysroot/bin/$part" ] || return 1
    done
}

install_rust() {
    rust_is_there && return
    local part options=(toolchain install "$channel" --profile minimal --no-self-update) root libraries
    for part in $components; do options+=(--component "$part"); done
    for part in $targets; do options+=(--target "$part"); done
    if have rustup; then
        say "installing Rust $channel with your rustup"
        rustup "${options[@]}"
    else
        need_root "Rust $channel is missing."
        say "installing Rust $channel"
        root=$toolchains/rustup-root
        extract trixie rustup "$root" || fail "could not get rustup from Debian; install Rust $channel yourself"
        libraries=$root/usr/lib/x86_64-linux-gnu
        # That rustup was built for a newer C library than ours, so it runs with the one it came with. The toolchain it
        # fetches runs on any.
        RUSTUP_HOME=$toolchains/rustup CARGO_HOME=$toolchains/cargo \
            "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" --argv0 rustup "$root/usr/bin/rustup" \
            "${options[@]}" || fail "could not fetch Rust $channel"
        rm -rf "$root"
        link "$toolchains/rustup/toolchains/$channel"-*/bin/{cargo,cargo-clippy,cargo-fmt,clippy-driver,rustc,rustdoc,rustfmt}
    fi
    rust_is_there || fail "Rust $channel was installed, but \`$(command -v cargo)\` is another: put $links first in PATH"
}

# Go can fetch a newer one of itself from version 1.21 on.
go_is_there() {
    local version
    version=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\n' "1.21" "${version#go}" | sort -V | head -n 1)" = "1.21" ]
}

install_go() {
    go_is_there && return
    local wanted root
    wanted=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' testbed/kube/go.mod)
    need_root "Go $wanted is missing."
    say "installing Go $wanted"
    root=$toolchains/go-root
    extract forky "golang-$wanted-go" "$root" || extract forky golang-go "$root" ||
        fail "could not get Go from Debian; install Go $wanted or newer yourself"
    link "$root"/usr/lib/go-*/bin/{go,gofmt}
    go_is_there || fail "Go was installed, but \`$(command -v go)\` is another: put $links first in PATH"
}

install_packages
install_rust
install_go
