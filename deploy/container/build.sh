#!/usr/bin/env bash
# The image of deploy/Dockerfile by buildah, on a base made by base-image.sh if there is none yet. Needs root.
#
#   deploy/container/build.sh localhost/spae:0.1.0 [ARGUMENTS OF buildah build ...]
#
# Packages come from where pip finds them on this machine: its configuration and certificates are lent to the build, and
# are no part of the image. A folder that pip is told to look in is mounted as
#   deploy/container/build.sh localhost/spae:0.1.0 --volume /srv/wheels:/srv/wheels:ro
set -euo pipefail
image=${1:?the name of the image, such as localhost/spae:0.1.0}
shift
here=$(dirname "$(readlink -f "$0")")
export BASE=${BASE:-localhost/spae-base:${SUITE:-bookworm}}
podman image exists "$BASE" || "$here/base-image.sh" > /dev/null

lent=()
lend() { [ ! -f "$2" ] || lent+=(--secret "id=$1,src=$2"); }
lend pip "${PIP_CONFIG_FILE:-/etc/pip.conf}"
lend certificates "${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}"

# layers: after a change of the code alone, libraries are not fetched again; chroot: works inside containers too;
# docker: the format that has health checks
exec buildah build --layers --isolation chroot --network host --format docker --build-arg "BASE=$BASE" "${lent[@]}" \
  "$@" --file "$here/../Dockerfile" --tag "$image" "$here/../.."
