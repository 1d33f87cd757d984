#!/bin/sh
# What tests need from Debian, installed where it may be: a compiler, Slurm, a browser, Fast DDS.
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

for package in g++ slurm-wlm chromium libfastrtps-dev; do
    installed $package || echo "without $package, the tests that need it skip"
done
