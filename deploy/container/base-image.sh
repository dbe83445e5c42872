#!/usr/bin/env bash
# A base image for deploy/Dockerfile out of Debian's packages, for machines that reach no image registry.
# Needs root, mmdebstrap and podman (apt-get install --no-install-recommends mmdebstrap podman); takes half a minute.
#
#   deploy/container/base-image.sh                     # localhost/spae-base:bookworm
#   BASE=localhost/python:13 SUITE=trixie deploy/container/base-image.sh
#
# SUITE: a Debian release with Python 3.11 or newer. MIRROR: where its packages are, if not at Debian's own address.
set -euo pipefail
suite=${SUITE:-bookworm} base=${BASE:-localhost/spae-base:${SUITE:-bookworm}}

# texts that nobody reads in a container stay out; licences stay
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates,tini \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  "$suite" - ${MIRROR:+"$MIRROR"} | podman import --quiet - "$base" > /dev/null
echo "$base"
