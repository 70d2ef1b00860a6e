#!/bin/sh
# Install Debian's chromium if there is no browser that the tests can start.
set -eu
for browser in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$browser" ] && command -v "$browser" >/dev/null; then
        exit 0
    fi
done
if ! command -v apt-get >/dev/null; then
    echo "error: expected chromium on the path or in CHROMIUM, found none, and no apt-get to install it by" >&2
    exit 1
elif [ "$(id -u)" -eq 0 ]; then
    as_root=
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "error: expected chromium on the path or in CHROMIUM, found none; as root: apt-get install chromium" >&2
    exit 1
fi
echo "installing chromium for the tests" >&2
$as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null
