#!/bin/sh
# What tests need from Debian, installed where it may be: the C++ example's headers, Slurm, a browser, Fast DDS.
# Tests that miss one of these skip and name this script.
set -u
cd "$(dirname "$0")/.."
become=""
[ "$(id -u)" = 0 ] || become="sudo -n"

installed() {
    dpkg -s "$1" >/dev/null 2>&1 && return
    { $become apt-get install -y -qq "$1" || { $become apt-get update -qq && $become apt-get install -y -qq "$1"; }; } \
        >/dev/null 2>&1
}

# Debian has onnxruntime's headers from 13 on. On 12 they come from there into a folder of this checkout: headers alone,
# since the library that the example links is the Python package's.
headers_of_debian_13() {
    headers=build/onnxruntime
    [ -d $headers/usr/include ] && return
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' |
        head -n 1)
    [ -n "$mirror" ] || return
    mkdir -p $headers/lists/partial
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keyring] $mirror trixie main" >$headers/trixie.list
    trixie="-o Dir::Etc::sourcelist=$PWD/$headers/trixie.list -o Dir::Etc::sourceparts=/dev/null"
    trixie="$trixie -o Dir::State::lists=$PWD/$headers/lists -o Dir::Cache=$PWD/$headers"
    (cd $headers && apt-get $trixie update -qq && apt-get $trixie download -qq libonnxruntime-dev &&
        dpkg-deb -x libonnxruntime-dev_*.deb . && rm -rf lists *.bin *.deb) >/dev/null 2>&1
}

for package in g++ cmake nlohmann-json3-dev slurm-wlm chromium libfastrtps-dev; do
    installed $package || echo "without $package, the tests that need it skip"
done
installed libonnxruntime-dev || headers_of_debian_13 ||
    echo "without libonnxruntime-dev, or ONNXRUNTIME_ROOT set to an unpacked release, the tests that need it skip"
