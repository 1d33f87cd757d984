#!/bin/sh
# Installs the Debian packages that tests need, if permitted: compilers, Slurm, a browser, Fast DDS, an emulated
# Cortex-M. Tests without their package skip and name this script.
set -u
cd "$(dirname "$0")/.."
become=""
[ "$(id -u)" = 0 ] || become="sudo -n"

installed() {
    dpkg -s "$1" >/dev/null 2>&1 && return
    { $become apt-get install -y -qq "$1" || { $become apt-get update -qq && $become apt-get install -y -qq "$1"; }; } \
        >/dev/null 2>&1
}

for package in g++ slurm-wlm chromium libfastrtps-dev nlohmann-json3-dev clang qemu-system-arm gcc-arm-none-eabi \
    libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib; do
    installed $package || echo "without $package, the tests that need it skip"
done
