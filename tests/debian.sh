#!/bin/sh
# What tests need from Debian, installed where it may be: compilers, Slurm, a browser, Fast DDS, an emulated Cortex-M.
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

for package in g++ slurm-wlm chromium libfastrtps-dev nlohmann-json3-dev clang qemu-system-arm gcc-arm-none-eabi \
    libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib; do
    installed $package || echo "without $package, the tests that need it skip"
done
